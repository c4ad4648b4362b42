//! Kept snapshots that are sent to another database, and received.

use std::io::{Read, Write};

use halite_contract::{Feature, Transfers};

use crate::engines::offered;
use crate::{Database, KeySpace, Progress, Result, StreamInfo, TransferReport};

/// Streams of kept snapshots. A *token* is a text in which a receiver says what it lacks of a stream that was
/// interrupted. All methods have the error [`crate::Error::Lacks`], besides those that they name.
impl Database {
    fn transfers(&self) -> Result<&dyn Transfers> {
        offered(&*self.engine, self.engine.capabilities().transfers, Feature::Transfers)
    }

    /// Reads how a stream begins, and no byte behind that.
    ///
    /// # Errors
    /// The stream cannot be read; it is none, or is damaged.
    pub fn stream_info(&self, input: &mut dyn Read) -> Result<StreamInfo> {
        Ok(self.transfers()?.stream_info(input)?)
    }

    /// Receives a stream as a new key space of the name, or as changes of that key space, in one commit, which is durable
    /// when this returns. After an error the key space is as it was, and the received part stays for the rest of the
    /// stream. With `rollback`, a key space that has changed since the snapshot that the stream is based on goes back to
    /// that first. `progress` gets the bytes of the stream, twice, and may stop it.
    ///
    /// # Errors
    /// The stream cannot be read, is damaged, is cut off, or does not fit the key space; it was stopped; the errors of a
    /// write.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        name: &str,
        rollback: bool,
        progress: Progress<'_>,
    ) -> Result<TransferReport> {
        Ok(self.transfers()?.receive(input, name, rollback, progress)?)
    }

    /// The token of a stream for a key space of the name whose receipt was interrupted, if one was.
    ///
    /// # Errors
    /// Those of a read.
    pub fn receive_token(&self, name: &str) -> Result<Option<String>> {
        Ok(self.transfers()?.receive_token(name)?)
    }

    /// Discards the received part of a stream that was interrupted. Returns whether there was one.
    ///
    /// # Errors
    /// It is being received; the errors of a write.
    pub fn discard_received(&self, name: &str) -> Result<bool> {
        Ok(self.transfers()?.discard_received(name)?)
    }
}

impl KeySpace {
    /// Sends a kept snapshot, or the changes since an older one; with a token of [`Database::receive_token`], the rest of a
    /// stream that was interrupted. `progress` gets the bytes of the stream and about how many there will be at the most,
    /// and may stop it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let (path, other) = (folder.path().join("data"), folder.path().join("copy"));
    /// use halite::Database;
    /// use std::ops::ControlFlow::Continue;
    /// let db = Database::builder().engine("betree").open(&path)?;
    /// let fruit = db.key_space("fruit")?;
    /// fruit.put("apple", "green")?;
    /// fruit.keep_snapshot("monday")?;
    /// let mut stream = Vec::new();
    /// fruit.send("monday", None, None, &mut stream, &mut |_, _| Continue(()))?;
    /// let copy = Database::builder().engine("betree").open(&other)?;
    /// copy.receive(&mut &stream[..], "fruit", false, &mut |_, _| Continue(()))?;
    /// assert_eq!(copy.key_space("fruit")?.get("apple")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; [`crate::EngineError::NoSuchKeySpace`]; there is no such snapshot; `from` is not older; the
    /// token is of another transfer; the stream cannot be written; it was stopped; the errors of a read.
    pub fn send(
        &self,
        snapshot: &str,
        from: Option<&str>,
        token: Option<&str>,
        out: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<TransferReport> {
        let capability = self.engine.capabilities().transfers;
        let transfers = offered(&*self.engine, capability, Feature::Transfers)?;
        Ok(transfers.send(self.id, snapshot, from, token, out, progress)?)
    }
}
