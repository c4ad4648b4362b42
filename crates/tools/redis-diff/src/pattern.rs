//! Words of a request from a pattern.
//!
//! ```text
//! WORD       itself
//! <atom>     a key, a value, a number, ...: see `atom`
//! [a|b c]    one of the alternatives, or nothing
//! {a|b c}    one of the alternatives
//! item...    the item, one to four times
//! ```
//!
//! Words are separated by spaces, also in front of a closing bracket. Alternatives may have brackets of their own. One
//! request in eight is then made odd: a word is dropped, doubled, replaced, moved, or written in lower case.

use fastrand::Rng;

use crate::scripts;
use crate::wire::Request;
use crate::words;

/// Times that an item with dots is repeated at most.
const REPEATED_MAX: usize = 4;

/// Makes a request of a pattern.
pub(crate) fn request(pattern: &str, random: &mut Rng) -> Request {
    let mut request = Vec::new();
    expand(pattern, random, &mut request);
    if random.u8(..8) == 0 {
        distort(&mut request, random);
    }
    request
}

/// Appends the words of a sequence of items.
fn expand(pattern: &str, random: &mut Rng, words: &mut Request) {
    let mut rest = pattern.trim_start();
    while !rest.is_empty() {
        let len = item_len(rest);
        let (item, behind) = rest.split_at(len);
        let (item, times) = match item.strip_suffix("...") {
            Some(item) => (item, 1 + random.usize(..REPEATED_MAX)),
            None => (item, 1),
        };
        (0..times).for_each(|_| expand_item(item, random, words));
        rest = behind.trim_start();
    }
}

/// The length of the item at the beginning of a pattern, up to the next space that is in no bracket.
fn item_len(pattern: &str) -> usize {
    let mut depth = 0;
    for (at, char) in pattern.char_indices() {
        match char {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ' ' if depth == 0 => return at,
            _ => {}
        }
    }
    pattern.len()
}

fn expand_item(item: &str, random: &mut Rng, words: &mut Request) {
    if let Some(inner) = item.strip_prefix('[').and_then(|item| item.strip_suffix(']')) {
        if random.bool() {
            choose(inner, random, words);
        }
    } else if let Some(inner) = item.strip_prefix('{').and_then(|item| item.strip_suffix('}')) {
        choose(inner, random, words);
    } else if let Some(name) = item.strip_prefix('<').and_then(|item| item.strip_suffix('>')) {
        words.push(atom(name, random));
    } else {
        words.push(item.as_bytes().to_vec());
    }
}

/// Appends the words of one of some alternatives.
fn choose(alternatives: &str, random: &mut Rng, words: &mut Request) {
    let (mut depth, mut starts) = (0, vec![0]);
    for (at, char) in alternatives.char_indices() {
        match char {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            '|' if depth == 0 => starts.push(at + 1),
            _ => {}
        }
    }
    let chosen = random.usize(..starts.len());
    let end = starts.get(chosen + 1).map_or(alternatives.len(), |next| next - 1);
    expand(&alternatives[starts[chosen]..end], random, words);
}

/// A word by the name of its kind. `<x:name>` is a key of the family `name`.
fn atom(name: &str, random: &mut Rng) -> Vec<u8> {
    match name {
        "key" => words::key(random),
        "value" => words::value(random),
        "bytes" => words::bytes(random, 20),
        "text" => words::text(random, 12),
        "int" => words::integer(random),
        "float" => words::float(random),
        "ttl" => words::time_to_live(random),
        "at" => words::time(random, 1),
        "at-ms" => words::time(random, 1000),
        "bit" => words::bit_offset(random),
        "field" => words::field(random),
        "field-offset" => words::field_offset(random),
        "odd" => words::odd(random),
        "element" => words::element(random),
        "score" => words::score(random),
        "limit" => words::limit(random),
        "lex" => words::lexical_limit(random),
        "id" => words::id(random),
        "new-id" => words::new_id(random),
        "bound" => words::id_bound(random),
        "longitude" => words::degrees(random, 185.0),
        "latitude" => words::degrees(random, 86.0),
        "script" => scripts::script(random),
        "json" => scripts::json(random, 3),
        "distance" => words::distance(random),
        "db" => words::pick(random, &["0", "0", "1", "15", "16", "-1", "x"]),
        _ => match name.strip_prefix("x:") {
            Some(family) => words::own_key(random, family),
            None => panic!("no kind of word is called `{name}`"),
        },
    }
}

/// Makes a request odd. Its command stays.
fn distort(request: &mut Request, random: &mut Rng) {
    if request.len() < 2 {
        request.push(words::odd(random));
        return;
    }
    let at = 1 + random.usize(..request.len() - 1);
    match random.u8(..6) {
        0 => drop(request.remove(at)),
        1 => request.insert(at, request[at].clone()),
        2 => request[at] = words::odd(random),
        3 => request.push(words::odd(random)),
        4 => {
            let other = 1 + random.usize(..request.len() - 1);
            request.swap(at, other);
        }
        _ => request.iter_mut().for_each(|word| word.make_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families;

    #[test]
    fn all_that_a_pattern_allows_comes_up() {
        let mut random = Rng::with_seed(3);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut words = Vec::new();
            expand("A [b|c {d|e f}] g...", &mut random, &mut words);
            seen.insert(words.join(&b' '));
        }
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
        let seen: Vec<_> = seen.iter().map(text).collect();
        assert_eq!(seen.len(), 4 * 4, "{seen:?}");
        assert!(seen.contains(&"A c e f g g".to_owned()) && seen.contains(&"A g".to_owned()));
    }

    #[test]
    fn all_patterns_can_be_expanded() {
        let mut random = Rng::with_seed(4);
        for pattern in families::patterns(&[], &[]).unwrap() {
            for _ in 0..200 {
                let request = request(pattern.text, &mut random);
                let name = request[0].to_ascii_uppercase();
                assert!(pattern.names().any(|of| of.as_bytes() == name), "{}", pattern.text);
            }
        }
    }
}
