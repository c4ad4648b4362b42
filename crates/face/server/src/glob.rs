//! Patterns with `*`, `?` and `[...]`.
//!
//! `*` stands for any bytes, `?` for one, `[abc]`, `[a-z]` and `[^a]` for one of (or none of) a set; a backslash takes
//! the next byte as it is. Matching needs no recursion: when a literal does not match, only the last `*` needs to take
//! one byte more, because any byte that an earlier `*` could leave, the last one can take. So a match costs at most
//! pattern length times text length.

/// Whether `pattern` matches all of `text`. `go_on` is called at each byte, and ends the match if it returns false: a
/// long pattern takes its time for each byte of the text.
pub(crate) fn matches(pattern: &[u8], text: &[u8], go_on: impl Fn() -> bool) -> bool {
    matches_by(pattern, text, |byte| byte, go_on)
}

/// [`matches`], upper and lower case being the same.
pub(crate) fn matches_ignoring_case(pattern: &[u8], text: &[u8], go_on: impl Fn() -> bool) -> bool {
    matches_by(pattern, text, |byte| byte.to_ascii_lowercase(), go_on)
}

/// The bytes that everything begins with that `pattern` matches.
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

fn matches_by(
    mut pattern: &[u8],
    mut text: &[u8],
    fold: fn(u8) -> u8,
    go_on: impl Fn() -> bool,
) -> bool {
    // The pattern behind the last star, and the text that it has not taken yet.
    let mut last_star = None;
    while go_on() {
        if let [b'*', rest @ ..] = pattern {
            if rest.is_empty() {
                return true;
            }
            last_star = Some((rest, text));
            pattern = rest;
            continue;
        }
        match (text.split_first(), one(pattern, text.first().copied(), fold)) {
            (Some((_, text_rest)), Some(pattern_rest)) => {
                (pattern, text) = (pattern_rest, text_rest)
            }
            (None, _) if pattern.is_empty() => return true,
            (None, _) => return false,
            (Some(_), None) => {
                let Some((behind, [_, left @ ..])) = last_star else { return false };
                last_star = Some((behind, left));
                (pattern, text) = (behind, left);
            }
        }
    }
    false
}

/// The pattern behind its first element, if that matches `byte`.
fn one(pattern: &[u8], byte: Option<u8>, fold: fn(u8) -> u8) -> Option<&[u8]> {
    let byte = fold(byte?);
    let (fits, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => set(rest, byte, fold),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (fold(*literal) == byte, rest),
    };
    fits.then_some(rest)
}

/// Whether `byte` is in the set that `pattern` continues with, and the rest of the pattern behind the set. A set that
/// is not closed ends with the pattern.
fn set(pattern: &[u8], byte: u8, fold: fn(u8) -> u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b']', rest @ ..] => return (found != negated, rest),
            [b'\\', literal, rest @ ..] => {
                found |= fold(*literal) == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                let (from, to) = (fold(*from), fold(*to));
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= fold(*literal) == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("[a", "a", true),
            ("[", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a\\", "a\\", true),
            ("*a*b", "xaxxbxb", true),
            ("*foo", "foofo", false),
            ("a**b", "ab", true),
            ("*?", "", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), || true),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches_ignoring_case(b"MAX[A-C]*", b"maxclients", || true));
    }

    #[test]
    fn a_match_ends_when_it_is_told_to() {
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() < 5
        };
        assert!(!matches_ignoring_case(b"*[abc", &[b'd'; 1000], go_on));
        assert_eq!(asked.get(), 5);
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = b"a*".repeat(1000);
        let text = [&b"a".repeat(10_000)[..], b"b"].concat();
        assert!(matches(&pattern, &text, || true));
        assert!(!matches(&[&pattern[..], b"c"].concat(), &text, || true));
    }

    /// The definition, by recursion.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [b'*', rest @ ..] => (0..=text.len()).any(|taken| slow(rest, &text[taken..])),
            _ => match (text, one(pattern, text.first().copied(), |byte| byte)) {
                ([], _) => pattern.is_empty(),
                ([_, text @ ..], Some(rest)) => slow(rest, text),
                (_, None) => false,
            },
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab*?^\\[\\]-]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), || true),
                            slow(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn a_match_begins_with_the_literal_prefix(pattern in "[ab*]{0,6}", text in "[ab]{0,6}") {
            prop_assume!(matches(pattern.as_bytes(), text.as_bytes(), || true));
            prop_assert!(text.as_bytes().starts_with(literal_prefix(pattern.as_bytes())));
        }
    }
}
