//! HALITE.BACKUP: a backup of everything, while others write.

use halite::BackupInfo;

use crate::backup::{Backup, Piece, Turn};
use crate::call::{Call, is};
use crate::failure::{Outcome, SYNTAX};

/// Takes a snapshot, and lets it be written.
pub(super) fn begin(call: &mut Call<'_>) -> Outcome {
    let since = match call.args.len() {
        2 => None,
        4 if is(call.arg(2), "SINCE") => {
            let info = BackupInfo::decode(call.arg(3));
            Some(info.ok_or("ERR what SINCE names is not the beginning of a backup")?)
        }
        _ => return Err(SYNTAX.into()),
    };
    if call.client.backup.is_some() {
        return Err("ERR this connection is taking a backup already; STOP ends it".into());
    }
    let turn = Turn::take(&call.service.shared)
        .ok_or("ERR another backup is being taken; wait for its end")?;
    let (db, snapshot) = call.service.store.snapshot()?;
    let begun = Backup::begin(turn, call.service.thread, move |out| {
        let written = match &since {
            None => db.backup(&snapshot, out),
            Some(since) => db.backup_since(since, &snapshot, out),
        };
        written.map(drop).map_err(|error| error.to_string())
    });
    call.client.backup = Some(begun.map_err(|why| format!("ERR {why}"))?);
    call.reply().ok();
    Ok(())
}

/// Returns the next piece. There is one: else the request would wait.
pub(super) fn next(call: &mut Call<'_>) -> Outcome {
    let Some(backup) = &call.client.backup else {
        return Err("ERR no backup is being taken; BEGIN takes one".into());
    };
    match backup.next() {
        Some(Piece::Bytes(bytes)) => call.reply().bulk(&bytes),
        Some(Piece::End) => {
            call.client.backup = None;
            call.reply().null();
        }
        Some(Piece::Failed(why)) => {
            call.client.backup = None;
            return Err(format!("ERR the backup ended early: {why}").into());
        }
        None => return Err("ERR there is nothing to return yet".into()),
    }
    Ok(())
}

pub(super) fn stop(call: &mut Call<'_>) -> Outcome {
    call.client.backup = None;
    call.reply().ok();
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "HALITE.BACKUP <subcommand> [<arg> [value] ...]. Subcommands are:",
        "BEGIN [SINCE <header>]",
        "    Begins a backup of all databases as they are now, or of the changes since another one.",
        "NEXT",
        "    Returns the next bytes of it, or nil at its end.",
        "STOP",
        "    Ends it early.",
        "HELP",
        "    Prints this help.",
        "`halite backup --server ADDRESS FILE` takes and checks one.",
    ]);
    Ok(())
}
