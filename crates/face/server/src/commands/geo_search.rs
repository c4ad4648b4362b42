//! Searches for places in an area: GEOSEARCH, and the older GEORADIUS in its forms.

use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::collection::sorted_set::{Scores, SortedSet};
use crate::double;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::geohash::{Area, Place, Shape};
use crate::number::parse_i64;

use super::geo::{place, unit, write_distance, write_place};
use super::long_reply::LongReply;
use super::sorted_sets::read_at;

/// Where a command has its words, and which of them it takes.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// The index of the key that is searched.
    source: usize,
    /// The index of the first option.
    options: usize,
    center: Center,
    /// The places may be stored, beside replying them.
    stores: Stores,
}

/// How a command says the center of its area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Center {
    Coordinates,
    Member,
    /// By an option, as it says the area itself.
    Option,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stores {
    Never,
    /// An option has the key.
    Option,
    /// The first key.
    Always,
}

pub(super) fn georadius(call: &mut Call<'_>) -> Outcome {
    radius(call, Center::Coordinates, Stores::Option)
}

pub(super) fn georadius_ro(call: &mut Call<'_>) -> Outcome {
    radius(call, Center::Coordinates, Stores::Never)
}

pub(super) fn georadiusbymember(call: &mut Call<'_>) -> Outcome {
    radius(call, Center::Member, Stores::Option)
}

pub(super) fn georadiusbymember_ro(call: &mut Call<'_>) -> Outcome {
    radius(call, Center::Member, Stores::Never)
}

fn radius(call: &mut Call<'_>, center: Center, stores: Stores) -> Outcome {
    let options = if center == Center::Coordinates { 6 } else { 5 };
    search(call, Form { source: 1, options, center, stores })
}

pub(super) fn geosearch(call: &mut Call<'_>) -> Outcome {
    let (center, stores) = (Center::Option, Stores::Never);
    search(call, Form { source: 1, options: 2, center, stores })
}

pub(super) fn geosearchstore(call: &mut Call<'_>) -> Outcome {
    let (center, stores) = (Center::Option, Stores::Always);
    search(call, Form { source: 2, options: 3, center, stores })
}

/// The words of a search, read.
#[derive(Default)]
struct Request {
    center: Option<Place>,
    /// How the center was said, which may be of a key without a value. The last word for it counts.
    said: Option<Center>,
    shape: Option<Shape>,
    /// Meters of the unit of distances.
    unit: f64,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    /// Whether the farthest come first.
    descends: Option<bool>,
    /// The most places; 0: all.
    count: usize,
    /// Any places, instead of the nearest.
    any: bool,
    /// The index of the key at which the places are stored.
    target: Option<usize>,
    /// Distances are stored as scores.
    stores_distances: bool,
}

impl Request {
    fn parse(call: &Call<'_>, form: Form, set: Option<&SortedSet>) -> Outcome<Self> {
        let mut request = Self { unit: 1.0, ..Self::default() };
        let first = form.options;
        match form.center {
            Center::Coordinates => {
                let center = place(call.arg(2), call.arg(3))?;
                request.set_center(form.center, Some(center));
                request.set_circle(call.arg(first - 2), call.arg(first - 1))?;
            }
            // Without a key, the words about the area are not read.
            Center::Member if set.is_none() => request.set_center(form.center, None),
            Center::Member => {
                let center = place_of(call, set, call.arg(2))?;
                request.set_center(form.center, Some(center));
                request.set_circle(call.arg(first - 2), call.arg(first - 1))?;
            }
            Center::Option => {}
        }
        if form.stores == Stores::Always {
            request.target = Some(1);
        }
        let mut at = first;
        while at < call.args.len() {
            at += request.read_option(call, form, set, at)?;
        }
        request.check(call, form)?;
        Ok(request)
    }

    /// Reads the option that begins at a word; returns the number of its words.
    fn read_option(
        &mut self,
        call: &Call<'_>,
        form: Form,
        set: Option<&SortedSet>,
        at: usize,
    ) -> Outcome<usize> {
        let word = call.arg(at);
        let follow = |words: usize| call.args.len() - at > words;
        let is_search = form.center == Center::Option;
        match () {
            () if is(word, "WITHDIST") => self.with_distance = true,
            () if is(word, "WITHHASH") => self.with_score = true,
            () if is(word, "WITHCOORD") => self.with_place = true,
            () if is(word, "ANY") => self.any = true,
            () if is(word, "ASC") => self.descends = Some(false),
            () if is(word, "DESC") => self.descends = Some(true),
            () if is(word, "COUNT") && follow(1) => {
                let count = parse_i64(call.arg(at + 1)).ok_or(NOT_AN_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                self.count = count.ok_or("ERR COUNT must be > 0")?;
                return Ok(2);
            }
            () if form.stores == Stores::Option && is(word, "STORE") && follow(1) => {
                (self.target, self.stores_distances) = (Some(at + 1), false);
                return Ok(2);
            }
            () if form.stores == Stores::Option && is(word, "STOREDIST") && follow(1) => {
                (self.target, self.stores_distances) = (Some(at + 1), true);
                return Ok(2);
            }
            () if form.stores == Stores::Always && is(word, "STOREDIST") => {
                self.stores_distances = true;
            }
            () if is_search
                && is(word, "FROMMEMBER")
                && follow(1)
                && self.said != Some(Center::Coordinates) =>
            {
                let center = set.map(|_| place_of(call, set, call.arg(at + 1))).transpose()?;
                self.set_center(Center::Member, center);
                return Ok(2);
            }
            () if is_search
                && is(word, "FROMLONLAT")
                && follow(2)
                && self.said != Some(Center::Member) =>
            {
                let center = place(call.arg(at + 1), call.arg(at + 2))?;
                self.set_center(Center::Coordinates, Some(center));
                return Ok(3);
            }
            () if is_search && is(word, "BYRADIUS") && follow(2) && !self.is_box() => {
                self.set_circle(call.arg(at + 1), call.arg(at + 2))?;
                return Ok(3);
            }
            () if is_search && is(word, "BYBOX") && follow(3) && !self.is_circle() => {
                self.set_box(call.arg(at + 1), call.arg(at + 2), call.arg(at + 3))?;
                return Ok(4);
            }
            () => return Err(SYNTAX.into()),
        }
        Ok(1)
    }

    fn set_center(&mut self, said: Center, center: Option<Place>) {
        (self.center, self.said) = (center, Some(said));
    }

    fn set_circle(&mut self, radius: &[u8], unit_word: &[u8]) -> Outcome {
        let radius = double::parse(radius).ok_or("ERR need numeric radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.unit = unit(unit_word)?;
        self.shape = Some(Shape::Circle { radius: radius * self.unit });
        Ok(())
    }

    fn set_box(&mut self, width: &[u8], height: &[u8], unit_word: &[u8]) -> Outcome {
        let width = double::parse(width).ok_or("ERR need numeric width")?;
        let height = double::parse(height).ok_or("ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err("ERR height or width cannot be negative".into());
        }
        self.unit = unit(unit_word)?;
        self.shape = Some(Shape::Box { width: width * self.unit, height: height * self.unit });
        Ok(())
    }

    fn is_circle(&self) -> bool {
        matches!(self.shape, Some(Shape::Circle { .. }))
    }

    fn is_box(&self) -> bool {
        matches!(self.shape, Some(Shape::Box { .. }))
    }

    fn check(&self, call: &Call<'_>, form: Form) -> Outcome {
        if self.target.is_some() && (self.with_distance || self.with_score || self.with_place) {
            let what = match form.stores {
                Stores::Always => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            let why = format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            );
            return Err(why.into());
        }
        let name = call.arg(0);
        if self.said.is_none() {
            let why = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(Failure::quoting(why, name, ""));
        }
        if form.center == Center::Option && self.shape.is_none() {
            let why = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(Failure::quoting(why, name, ""));
        }
        if self.any && self.count == 0 {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    /// The places in the area, in the order in which they are replied.
    fn find(&self, call: &mut Call<'_>, set: &SortedSet) -> Outcome<Vec<Found>> {
        let Some((center, shape)) = self.center.zip(self.shape) else { return Ok(Vec::new()) };
        let area = Area { center, shape };
        let most = if self.any { self.count } else { usize::MAX };
        let (store, reply) = LongReply::of(call);
        let mut found = Vec::new();
        let scores = area.scores().into_iter();
        let ranges: Vec<_> = scores
            .map(|(min, max)| Scores { min, max, without_min: false, without_max: true })
            .collect();
        set.visit_in(store, &ranges, |score, member| {
            let place = Place::of_score(score);
            if let Some(distance) = area.distance_within(place) {
                let (member, distance) = (member.to_vec(), distance / self.unit);
                found.push(Found { member, score, place, distance });
            }
            reply.check_ending()?;
            Ok(match found.len() >= most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })?;
        let descends = match self.descends {
            None if self.count > 0 && !self.any => Some(false),
            descends => descends,
        };
        match descends {
            Some(false) => found.sort_by(|one, other| one.distance.total_cmp(&other.distance)),
            Some(true) => found.sort_by(|one, other| other.distance.total_cmp(&one.distance)),
            None => {}
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        Ok(found)
    }
}

/// A place in the area.
struct Found {
    member: Vec<u8>,
    score: f64,
    place: Place,
    /// From the center, in the unit that is requested.
    distance: f64,
}

/// The place of a member, which must be there.
fn place_of(call: &Call<'_>, set: Option<&SortedSet>, member: &[u8]) -> Outcome<Place> {
    let score = match set {
        Some(set) => set.score(&call.service.store, member)?,
        None => None,
    };
    let score = score.ok_or("ERR could not decode requested zset member")?;
    Ok(Place::of_score(score))
}

fn search(call: &mut Call<'_>, form: Form) -> Outcome {
    let set = read_at(call, form.source)?;
    let request = Request::parse(call, form, set.as_ref())?;
    let found = match &set {
        Some(set) => request.find(call, set)?,
        None => Vec::new(),
    };
    match request.target {
        Some(target) => {
            let is_search = form.stores == Stores::Always;
            let event = if is_search { "geosearchstore" } else { "georadiusstore" };
            store(call, &request, target, &found, event)
        }
        None => reply(call, &request, &found),
    }
}

fn store(
    call: &mut Call<'_>,
    request: &Request,
    target: usize,
    found: &[Found],
    event: &'static str,
) -> Outcome {
    let mut set = SortedSet::new(call.client.db, call.arg(target));
    for place in found {
        call.check_ending()?;
        let score = if request.stores_distances { place.distance } else { place.score };
        set.put(&mut call.service.store, &place.member, score)?;
    }
    set.save_new(&mut call.service.store, event)?;
    call.reply().integer(found.len() as i64);
    Ok(())
}

fn reply(call: &mut Call<'_>, request: &Request, found: &[Found]) -> Outcome {
    let (_, mut long) = LongReply::of(call);
    long.write().array(found.len());
    let more = [request.with_distance, request.with_score, request.with_place];
    let more = more.into_iter().filter(|&is_wanted| is_wanted).count();
    for place in found {
        let mut reply = long.write();
        if more > 0 {
            reply.array(1 + more);
        }
        reply.bulk(&place.member);
        if request.with_distance {
            write_distance(&mut reply, place.distance);
        }
        if request.with_score {
            reply.integer(place.score as i64);
        }
        if request.with_place {
            write_place(&mut reply, place.place);
        }
        if long.go_on()?.is_break() {
            break;
        }
    }
    Ok(())
}
