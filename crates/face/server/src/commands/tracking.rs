//! CLIENT TRACKING and its kin: clients that cache keys.

use std::sync::Arc;

use crate::call::{Call, is};
use crate::client::Client;
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX, shown};
use crate::number::parse_i64;
use crate::pubsub::Kind;
use crate::service::Service;
use crate::tracking::{Mode, Overlap, Tracking};

/// The options of CLIENT TRACKING.
#[derive(Default)]
struct Options<'a> {
    redirect: u64,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = call.args.from(3).iter();
        while let Some(word) = words.next() {
            let has_more = words.len() > 0;
            match () {
                () if is(word, "REDIRECT") && has_more => {
                    if options.redirect != 0 {
                        return Err(
                            "ERR A client can only redirect to a single other client".into()
                        );
                    }
                    let id = words.next().and_then(parse_i64).ok_or(NOT_AN_INTEGER)?;
                    let id = u64::try_from(id).ok();
                    let id = id.filter(|&id| call.service.shared.registry.has_client(id));
                    let gone = "ERR The client ID you want redirect to does not exist";
                    options.redirect = id.ok_or(gone)?;
                }
                () if is(word, "BCAST") => options.broadcast = true,
                () if is(word, "OPTIN") => options.opt_in = true,
                () if is(word, "OPTOUT") => options.opt_out = true,
                () if is(word, "NOLOOP") => options.no_loop = true,
                () if is(word, "PREFIX") && has_more => options.prefixes.extend(words.next()),
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }

    /// Refuses options that do not go together, or not with what the client has.
    fn check(&self, known: Option<&Tracking>) -> Outcome {
        let mode = known.map(|tracking| tracking.mode);
        let switches_broadcast =
            mode.is_some_and(|mode| (mode == Mode::Broadcast) != self.broadcast);
        let switches_choice =
            mode == Some(Mode::OptOut) && self.opt_in || mode == Some(Mode::OptIn) && self.opt_out;
        let refused = match () {
            () if !self.broadcast && !self.prefixes.is_empty() => {
                "ERR PREFIX option requires BCAST mode to be enabled"
            }
            () if switches_broadcast => {
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode."
            }
            () if self.broadcast && (self.opt_in || self.opt_out) => {
                "ERR OPTIN and OPTOUT are not compatible with BCAST"
            }
            () if self.opt_in && self.opt_out => {
                "ERR You can't specify both OPTIN mode and OPTOUT mode"
            }
            () if switches_choice => {
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode."
            }
            () => return self.check_prefixes(known),
        };
        Err(refused.into())
    }

    fn check_prefixes(&self, known: Option<&Tracking>) -> Outcome {
        let nothing = Tracking::default();
        let Some(overlap) = known.unwrap_or(&nothing).overlap(&self.prefixes) else {
            return Ok(());
        };
        let Overlap { prefix, other, is_known } = overlap;
        let of = if is_known { "an existing prefix" } else { "another provided prefix" };
        let text = [
            b"ERR Prefix '",
            shown(prefix),
            b"' overlaps with ",
            of.as_bytes(),
            b" '",
            shown(&other),
            b"'. Prefixes for a single client must not overlap.",
        ];
        Err(text.concat().into())
    }

    fn mode(&self) -> Mode {
        match () {
            () if self.broadcast => Mode::Broadcast,
            () if self.opt_in => Mode::OptIn,
            () if self.opt_out => Mode::OptOut,
            () => Mode::Reads,
        }
    }
}

pub(super) fn tracking(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call)?;
    match () {
        () if is(call.arg(2), "ON") => {
            options.check(call.client.tracking.as_deref())?;
            enable(call, &options);
        }
        () if is(call.arg(2), "OFF") => leave(call.service, call.client),
        () => return Err(SYNTAX.into()),
    }
    call.reply().ok();
    Ok(())
}

/// Lets a client be told of changes, or changes how. Prefixes that it has stay.
fn enable(call: &mut Call<'_>, options: &Options<'_>) {
    let place = call.client.place;
    if call.client.tracking.is_none() {
        call.service.subscribers.add_tracker(place);
    }
    let tracking = call.client.tracking.get_or_insert_default();
    tracking.mode = options.mode();
    tracking.no_loop = options.no_loop;
    tracking.redirect = options.redirect;
    tracking.is_broken = false;
    let everything = [&b""[..]];
    let prefixes = match options.broadcast && options.prefixes.is_empty() {
        true => &everything[..],
        false => &options.prefixes,
    };
    for prefix in prefixes {
        let subscribers = &mut call.service.subscribers;
        subscribers.subscribe(&mut tracking.prefixes, place, Kind::Prefix, prefix);
    }
}

/// Lets a client be told of no more changes.
pub(crate) fn leave(service: &mut Service, client: &mut Client) {
    if let Some(tracking) = client.tracking.take() {
        service.subscribers.remove_tracker(client.place);
        service.subscribers.leave(tracking.prefixes, client.place);
    }
}

pub(super) fn caching(call: &mut Call<'_>) -> Outcome {
    let Some(tracking) = &mut call.client.tracking else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
                    mode enabled"
            .into());
    };
    let (word, mode) = (call.args.get(2).unwrap_or_default(), tracking.mode);
    match () {
        () if is(word, "YES") && mode == Mode::OptIn => {}
        () if is(word, "NO") && mode == Mode::OptOut => {}
        () if is(word, "YES") => {
            return Err(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
                    .into(),
            );
        }
        () if is(word, "NO") => {
            return Err(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
                    .into(),
            );
        }
        () => return Err(SYNTAX.into()),
    }
    tracking.caching = true;
    call.reply().ok();
    Ok(())
}

pub(super) fn getredir(call: &mut Call<'_>) -> Outcome {
    let redirect = call.client.redirect();
    call.reply().integer(redirect);
    Ok(())
}

pub(super) fn trackinginfo(call: &mut Call<'_>) -> Outcome {
    let tracking = call.client.tracking.as_deref();
    let mode = tracking.map(|tracking| tracking.mode);
    let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
    flags.extend(match mode {
        Some(Mode::Broadcast) => Some("bcast"),
        Some(Mode::OptIn) => Some("optin"),
        Some(Mode::OptOut) => Some("optout"),
        Some(Mode::Reads) | None => None,
    });
    if let Some(tracking) = tracking {
        if tracking.caching {
            flags.push(if mode == Some(Mode::OptIn) { "caching-yes" } else { "caching-no" });
        }
        if tracking.no_loop {
            flags.push("noloop");
        }
        if tracking.is_broken {
            flags.push("broken_redirect");
        }
    }
    let prefixes: Vec<Arc<[u8]>> =
        tracking.map_or(Vec::new(), |tracking| tracking.prefixes.names(Kind::Prefix));
    let redirect = call.client.redirect();
    let mut reply = call.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
