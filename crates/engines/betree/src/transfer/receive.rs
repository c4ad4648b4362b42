//! Receiving.

use std::collections::BTreeSet;
use std::io::Read;

use halite_contract::{Progress, Result, StreamInfo, TransferReport, check_key_space_name};
use halite_sim::locks::Mutex;

use super::content::ContentReader;
use super::error::StreamError;
use super::header::{Header, ReceiveToken, StreamPart};
use super::options::ReceiveOptions;
use super::staging::{Staging, refused, staging_name, state_key};
use crate::catalogue::{CATALOGUE, check_name};
use crate::message::Kind;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::{Betree, Error, read};

/// The names of the datasets for which streams are being received.
#[derive(Default)]
pub(crate) struct Receiving(Mutex<BTreeSet<String>>);

/// The name among them, as long as this lives.
struct Reserved<'a>(&'a Receiving, String);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

impl Receiving {
    fn reserve(&self, name: &str) -> Result<Reserved<'_>> {
        match self.0.lock().insert(name.to_owned()) {
            true => Ok(Reserved(self, name.to_owned())),
            false => Err(refused(StreamError::UnderWay { dataset: name.to_owned() })),
        }
    }
}

impl Betree {
    /// Receives what [`Betree::send`] has sent, as a new dataset of the name, or as changes of that dataset, whose newest
    /// snapshot has to be the one that they are based on. The dataset changes, and gets the snapshot, in one commit,
    /// which is durable when this returns. After any error it is as it was, and [`Betree::receive_token`] says what is
    /// still to be sent. `progress` gets the bytes of the stream, twice, and may stop it.
    ///
    /// # Errors
    /// [`Error::Stream`]; [`Error::KeySpaceExists`], [`halite_contract::Error::NoSuchKeySpace`],
    /// [`Error::SnapshotExists`]: the stream does not fit; those of a write.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        name: &str,
        options: ReceiveOptions,
        progress: Progress<'_>,
    ) -> Result<TransferReport> {
        check_name(name)?;
        check_key_space_name(&staging_name(name))?;
        let _reserved = self.receiving.reserve(name)?;
        let (mut content, header) = ContentReader::begin(input).map_err(Error::from)?;
        check_key_space_name(&header.snapshot)?;
        // A stream that does not fit is refused before it is read.
        let target = self.target(&header, name, options)?;
        if let Some((space, base)) = &target
            && !options.rollback
        {
            self.check_unchanged(*space, base)?;
        }
        let mut staging = self.stage(&header, name)?;
        let staged = staging.receive(&mut content, target.is_some(), progress);
        if let Err(error) = staged {
            // The verified part stays for the rest of the stream.
            let kept = staging.commit();
            return Err(kept.err().unwrap_or(error));
        }
        staging.commit()?;
        self.finish(&header, name, options, staging.number)?;
        Ok(content.report)
    }

    /// Reads how a stream begins, and no byte behind that.
    ///
    /// # Errors
    /// [`Error::Stream`].
    pub fn stream_info(input: &mut dyn Read) -> Result<StreamInfo> {
        let (_, header) = ContentReader::begin(input).map_err(Error::from)?;
        let Header { dataset, snapshot, from, part, .. } = header;
        Ok(StreamInfo { key_space: dataset, snapshot, from: part.from.map(|_| from) })
    }

    /// The part that a dataset lacks of a stream whose receipt was interrupted.
    ///
    /// # Errors
    /// Those of reading; [`halite_contract::Error::Damaged`].
    pub fn receive_token(&self, name: &str) -> Result<Option<ReceiveToken>> {
        let staged = self.store.catalogue.load().find_own(&staging_name(name));
        let Some(staged) = staged else { return Ok(None) };
        Ok(self.staged_part(staged)?.map(ReceiveToken))
    }

    /// Discards what was received of a stream that was interrupted. Returns whether there was anything.
    ///
    /// # Errors
    /// [`Error::Stream`]: it is being received; those of a write.
    pub fn discard_received(&self, name: &str) -> Result<bool> {
        let _reserved = self.receiving.reserve(name)?;
        let _changing = self.store.cataloguing.lock();
        self.discard(name)
    }

    fn discard(&self, name: &str) -> Result<bool> {
        let name = staging_name(name);
        let catalogue = self.store.catalogue.load_full();
        let Some(staged) = catalogue.find_own(&name) else { return Ok(false) };
        let mut batch = Batch::default();
        let changed = catalogue.without_own(&name, &mut batch);
        batch.push(CATALOGUE, Kind::Delete, &state_key(staged), &[]);
        self.change(&batch, Purpose::Removal, changed)?;
        Ok(true)
    }

    /// How far a staging dataset came.
    fn staged_part(&self, staged: u32) -> Result<Option<StreamPart>> {
        let store = &*self.store;
        let (view, at) = store.now();
        let state = read::get(&store.trees, &view, at, CATALOGUE, &state_key(staged))?;
        let parsed = state.map(|state| {
            StreamPart::of_bytes(&state).ok_or_else(|| halite_contract::Error::Damaged {
                what: "the state of a stream that was received in part".into(),
                why: "it is none".into(),
            })
        });
        parsed.transpose()
    }

    /// The dataset in which a stream is staged: a new one, or one that has the beginning.
    fn stage(&self, header: &Header, name: &str) -> Result<Staging<'_>> {
        let store = &*self.store;
        let _changing = store.cataloguing.lock();
        let staging = staging_name(name);
        let of = |number: u32| Staging {
            store,
            name: staging.clone(),
            number,
            part: header.part.clone(),
            batch: Batch::default(),
        };
        let found = store.catalogue.load().find_own(&staging);
        let before = found.map(|number| self.staged_part(number)).transpose()?.flatten();
        if header.part.start.is_some() {
            return match (found, before) {
                (Some(number), Some(before)) if before == header.part => Ok(of(number)),
                _ => Err(refused(StreamError::NotResumable {
                    why: "the stream is the rest of another one than the part that was received",
                })),
            };
        }
        self.discard(name)?;
        let mut batch = Batch::default();
        let (changed, id) = store.catalogue.load_full().with(&staging, &mut batch)?;
        let mut state = Vec::new();
        header.part.encode(&mut state);
        batch.push(CATALOGUE, Kind::Insert, &state_key(id.0), &state);
        self.change(&batch, Purpose::Bookkeeping, changed)?;
        Ok(of(id.0))
    }
}
