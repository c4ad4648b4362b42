//! The commands of replication, of which there is none: a server is a master without replicas, and stays one.

use crate::call::{Call, is};
use crate::failure::{Outcome, SYNTAX};
use crate::number::parse_i64;

/// REPLICAOF and SLAVEOF: to be no replica is what this server is already.
pub(super) fn replicaof(call: &mut Call<'_>) -> Outcome {
    if !is(call.arg(1), "NO") || !is(call.arg(2), "ONE") {
        if parse_i64(call.arg(2)).is_none_or(|port| !(0..=65535).contains(&port)) {
            return Err("ERR Invalid master port".into());
        }
        return Err("ERR this server has no replication, and cannot become a replica".into());
    }
    call.reply().ok();
    Ok(())
}

/// Refuses a failover: there is no replica that could take over.
pub(super) fn failover(call: &mut Call<'_>) -> Outcome {
    let (mut timeout, mut has_target, mut forced, mut aborts) = (0, false, false, false);
    let mut index = 1;
    while let Some(word) = call.args.get(index) {
        let left = call.args.len() - index - 1;
        index += 1;
        match () {
            () if is(word, "TIMEOUT") && left >= 1 && timeout == 0 => {
                timeout = call.integer(index)?;
                if timeout <= 0 {
                    return Err("ERR FAILOVER timeout must be greater than 0".into());
                }
                index += 1;
            }
            () if is(word, "TO") && left >= 2 && !has_target => {
                call.integer(index + 1)?;
                has_target = true;
                index += 2;
            }
            () if is(word, "ABORT") && call.args.len() == 2 => aborts = true,
            () if is(word, "FORCE") && !forced => forced = true,
            () => return Err(SYNTAX.into()),
        }
    }
    Err(match aborts {
        true => "ERR No failover in progress.".into(),
        false => "ERR FAILOVER requires connected replicas.".into(),
    })
}

/// Refuses SYNC, PSYNC and REPLCONF.
pub(super) fn refuse(_: &mut Call<'_>) -> Outcome {
    Err("ERR this server has no replication: HALITE.BACKUP copies its data while others write"
        .into())
}
