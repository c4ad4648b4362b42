//! Commands on lists.

use crate::call::Call;
use crate::collection::list::{End, List};
use crate::failure::Outcome;

pub(super) fn lpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left)
}

pub(super) fn rpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right)
}

fn push(call: &mut Call<'_>, end: End) -> Outcome {
    let store = &mut call.service.store;
    let mut list = List::find_or_new(store, call.client.db, call.args.get(1).unwrap_or_default())?;
    for element in call.args.from(2) {
        list.push(store, end, element)?;
    }
    let len = list.len(store)?;
    list.save(store)?;
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn llen(call: &mut Call<'_>) -> Outcome {
    let store = &mut call.service.store;
    let list = List::find(store, call.client.db, call.args.get(1).unwrap_or_default())?;
    let len = list.map_or(Ok(0), |list| list.len(store))?;
    call.reply().integer(len as i64);
    Ok(())
}
