//! Changes of settings, by CONFIG SET and by the config file.

use super::other_names::OTHER_NAMES;
use super::parameters::PARAMETERS;
use crate::call::is;
use crate::failure::{Failure, Outcome};
use crate::resp::Args;
use crate::settings::Settings;

/// The longest value of a setting, in bytes: each thread has a copy.
const VALUE_LEN_MAX: usize = 4 << 10;

/// Why a setting is not changed.
pub(crate) enum Refusal {
    /// There is no setting of this name.
    Unknown,
    /// It is one of Redis that has no effect here.
    NotHere,
    /// It stays as it was at the start.
    Immutable,
    /// The value is none of the setting of this name.
    Invalid(&'static str, String),
}

/// Changes a setting, and returns its name.
pub(crate) fn assign(
    settings: &mut Settings,
    word: &[u8],
    value: &[u8],
) -> Result<&'static str, Refusal> {
    let Some(parameter) = PARAMETERS.iter().find(|parameter| is(word, parameter.name)) else {
        let is_known = OTHER_NAMES.iter().any(|known| is(word, known));
        return Err(if is_known { Refusal::NotHere } else { Refusal::Unknown });
    };
    let set = parameter.set.ok_or(Refusal::Immutable)?;
    let changed = match value.len() {
        0..=VALUE_LEN_MAX => set(settings, value),
        _ => Err(format!("argument must not be longer than {VALUE_LEN_MAX} bytes")),
    };
    changed.map_err(|why| Refusal::Invalid(parameter.name, why))?;
    Ok(parameter.name)
}

/// The settings as `words` change them.
pub(super) fn change(settings: &Settings, words: Args<'_>) -> Outcome<Settings> {
    let mut settings = settings.clone();
    let mut seen: Vec<&str> = Vec::new();
    let mut words = words.iter();
    while let (Some(word), Some(value)) = (words.next(), words.next()) {
        if seen.iter().any(|name| is(word, name)) {
            return Err(failed(word, "duplicate parameter"));
        }
        let name = assign(&mut settings, word, value).map_err(|refusal| match refusal {
            Refusal::Unknown => {
                let text = "ERR Unknown option or number of arguments for CONFIG SET - '";
                Failure::quoting(text, word, "'")
            }
            Refusal::NotHere | Refusal::Immutable => failed(word, "can't set immutable config"),
            Refusal::Invalid(name, why) => failed(name.as_bytes(), &why),
        })?;
        seen.push(name);
    }
    if let Some(name) = seen.iter().find(|name| name.starts_with("tls-")) {
        // Together, as a certificate and its key change together. A file of the same name may be another one.
        let reloaded = settings.tls.reload();
        reloaded.map_err(|why| {
            failed(name.as_bytes(), &format!("Unable to update TLS configuration: {why}"))
        })?;
    }
    settings.fit_client_memory();
    settings.changed.extend(seen);
    Ok(settings)
}

/// Refuses a setting, as Redis does: an error in the request is reported with the client's word, and an invalid value
/// with the setting's name.
fn failed(name: &[u8], why: &str) -> Failure {
    let text = "ERR CONFIG SET failed (possibly related to argument '";
    Failure::quoting(text, name, &format!("') - {why}"))
}
