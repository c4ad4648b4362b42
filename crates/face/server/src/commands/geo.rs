//! Commands on places, which are members of sorted sets. Searches are in `geo_search`.

use crate::call::{Call, is};
use crate::double;
use crate::failure::{Failure, NOT_A_FLOAT, Outcome, SYNTAX};
use crate::geohash::Place;
use crate::reply::Reply;

use super::sorted_sets::{self, Setting};

pub(super) fn geoadd(call: &mut Call<'_>) -> Outcome {
    let mut setting = Setting::default();
    let mut first = 2;
    while let Some(word) = call.args.get(first) {
        match () {
            () if is(word, "NX") => setting.if_absent = true,
            () if is(word, "XX") => setting.if_present = true,
            () if is(word, "CH") => setting.counts_changes = true,
            () => break,
        }
        first += 1;
    }
    let words = call.args.from(first);
    let are_triples = !words.is_empty() && words.len().is_multiple_of(3);
    if !are_triples || setting.if_absent && setting.if_present {
        return Err(SYNTAX.into());
    }
    let mut members = Vec::new();
    let mut words = words.iter();
    while let (Some(longitude), Some(latitude), Some(member)) =
        (words.next(), words.next(), words.next())
    {
        members.push((place(longitude, latitude)?.score(), member));
    }
    sorted_sets::add_members(call, setting, &members)
}

/// The place of two words.
pub(super) fn place(longitude: &[u8], latitude: &[u8]) -> Outcome<Place> {
    let longitude = double::parse(longitude).ok_or(NOT_A_FLOAT)?;
    let latitude = double::parse(latitude).ok_or(NOT_A_FLOAT)?;
    let place = Place { longitude, latitude };
    if place.is_valid() {
        return Ok(place);
    }
    let why = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
    Err(Failure::from(why))
}

/// The meters of a unit.
pub(super) fn unit(word: &[u8]) -> Outcome<f64> {
    match () {
        () if is(word, "M") => Ok(1.0),
        () if is(word, "KM") => Ok(1000.0),
        () if is(word, "FT") => Ok(0.3048),
        () if is(word, "MI") => Ok(1609.34),
        () => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}

/// Writes a distance, with four digits behind the point.
pub(super) fn write_distance(reply: &mut Reply<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

/// Writes the coordinates of a place.
pub(super) fn write_place(reply: &mut Reply<'_>, place: Place) {
    reply.array(2);
    reply.double_text(&double::human(place.longitude));
    reply.double_text(&double::human(place.latitude));
}

pub(super) fn geodist(call: &mut Call<'_>) -> Outcome {
    let unit = match call.args.len() {
        4 => 1.0,
        5 => unit(call.arg(4))?,
        _ => return Err(SYNTAX.into()),
    };
    let mut distance = None;
    if let Some(set) = sorted_sets::read(call)? {
        let store = &call.service.store;
        let one = set.score(store, call.arg(2))?;
        let other = set.score(store, call.arg(3))?;
        distance = one
            .zip(other)
            .map(|(one, other)| Place::of_score(one).distance(Place::of_score(other)) / unit);
    }
    match distance {
        Some(distance) => write_distance(&mut call.reply(), distance),
        None => call.reply().null(),
    }
    Ok(())
}

pub(super) fn geohash(call: &mut Call<'_>) -> Outcome {
    tell(call, |reply, place| match place {
        Some(place) => reply.bulk(&place.text()),
        None => reply.null(),
    })
}

pub(super) fn geopos(call: &mut Call<'_>) -> Outcome {
    tell(call, |reply, place| match place {
        Some(place) => write_place(reply, place),
        None => reply.null_array(),
    })
}

/// Writes something about each of the members.
fn tell(call: &mut Call<'_>, write: impl Fn(&mut Reply<'_>, Option<Place>)) -> Outcome {
    let set = sorted_sets::read(call)?;
    let (members, start) = (call.args.from(2), call.out.len());
    call.reply().array(members.len());
    for member in members {
        let score = match &set {
            Some(set) => set.score(&call.service.store, member)?,
            None => None,
        };
        write(&mut call.reply(), score.map(Place::of_score));
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}
