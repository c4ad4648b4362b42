//! The words of a request as a tree, made from the syntax of its command.

use std::iter::Peekable;
use std::vec::IntoIter;

/// An argument of a command, or several in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The word before it.
    pub(super) token: Option<&'static str>,
    pub(super) is_optional: bool,
    /// It may be repeated.
    pub(super) is_multiple: bool,
    /// Its token is repeated with it.
    pub(super) repeats_token: bool,
}

/// A kind of argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word of this type.
    Word(&'static str),
    /// The token alone.
    Token,
    OneOf(Vec<Argument>),
    Block(Vec<Argument>),
}

impl Argument {
    fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            token: None,
            is_optional: false,
            is_multiple: false,
            repeats_token: false,
        }
    }

    /// The name of its type, as COMMAND DOCS tells it.
    pub(super) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Word(name) => name,
            Kind::Token => "pure-token",
            Kind::OneOf(_) => "oneof",
            Kind::Block(_) => "block",
        }
    }

    /// The arguments that it consists of.
    pub(super) fn parts(&self) -> &[Argument] {
        match &self.kind {
            Kind::OneOf(parts) | Kind::Block(parts) => parts,
            Kind::Word(_) | Kind::Token => &[],
        }
    }
}

/// A piece of a syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Open(char),
    Close,
    Or,
    Repeat,
    /// The name of the group that follows.
    Label(&'static str),
    Word(&'static str),
}

/// The words of a command's syntax; those of the table are all well-formed, and others end early.
pub(super) fn parse(syntax: &'static str) -> Vec<Argument> {
    Parser(pieces(syntax).into_iter().peekable()).sequence()
}

fn pieces(mut rest: &'static str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return pieces };
        let (piece, len) = match first {
            '[' | '(' | '{' => (Piece::Open(first), 1),
            ']' | ')' | '}' => (Piece::Close, 1),
            '|' => (Piece::Or, 1),
            _ if rest.starts_with("...") => (Piece::Repeat, 3),
            _ => {
                let ends = |letter: char| letter.is_whitespace() || "[](){}|".contains(letter);
                let end = rest.find(ends).unwrap_or(rest.len());
                let end = rest[..end].find("...").unwrap_or(end);
                match rest[..end].split_once('=') {
                    Some((label, _)) if !label.is_empty() => (Piece::Label(label), label.len() + 1),
                    _ => (Piece::Word(&rest[..end]), end),
                }
            }
        };
        pieces.push(piece);
        rest = &rest[len..];
    }
}

/// Whether a word is written as it is.
fn is_token(word: &str) -> bool {
    !word.contains(|letter: char| letter.is_ascii_lowercase())
}

/// The token in lower case, from the names that tokens have.
fn name_of(token: &'static str) -> &'static str {
    match token {
        "=" => "equal",
        "~" => "approximately",
        _ => token,
    }
}

/// The name and the type of a word's value.
fn word(text: &'static str) -> Argument {
    let (name, kind) = match text.split_once(':') {
        Some((name, kind)) => (name, kind),
        None => (text, type_of(text)),
    };
    Argument::new(name, Kind::Word(kind))
}

/// The type of a value, by its name.
fn type_of(name: &str) -> &'static str {
    match name {
        "key" => "key",
        "pattern" => "pattern",
        "unix-time-seconds" | "unix-time-milliseconds" => "unix-time",
        "count" | "end" | "increment" | "index" | "milliseconds" | "numfields" | "numkeys"
        | "offset" | "rank" | "seconds" | "start" | "stop" | "timeout" => "integer",
        _ => "string",
    }
}

struct Parser(Peekable<IntoIter<Piece>>);

impl Parser {
    /// The arguments up to the end of a group, or of an alternative.
    fn sequence(&mut self) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = Vec::new();
        while let Some(argument) = self.argument() {
            arguments.push(argument);
        }
        arguments
    }

    fn argument(&mut self) -> Option<Argument> {
        let piece = self.0.next_if(|piece| !matches!(piece, Piece::Close | Piece::Or))?;
        let mut argument = match piece {
            Piece::Word(token) if is_token(token) => match self.0.peek() {
                Some(Piece::Word(next)) if !is_token(next) => self.with_token(token)?,
                Some(Piece::Label(_) | Piece::Open('(' | '{')) => self.with_token(token)?,
                _ => Argument { token: Some(token), ..Argument::new(name_of(token), Kind::Token) },
            },
            Piece::Word(text) => word(text),
            Piece::Label(name) => Argument { name, ..self.argument()? },
            Piece::Open(bracket) => self.group(bracket),
            Piece::Repeat | Piece::Close | Piece::Or => return None,
        };
        if self.0.next_if_eq(&Piece::Repeat).is_some() {
            argument.is_multiple = true;
            // A repeated group of words has its token before each repetition.
            argument.repeats_token = matches!(piece, Piece::Open(_)) && argument.token.is_some();
        }
        Some(argument)
    }

    /// The next argument, with the token before it.
    fn with_token(&mut self, token: &'static str) -> Option<Argument> {
        Some(Argument { token: Some(token), ..self.argument()? })
    }

    /// The group behind a bracket, up to its end.
    fn group(&mut self, bracket: char) -> Argument {
        let mut alternatives = vec![self.sequence()];
        while self.0.next_if_eq(&Piece::Or).is_some() {
            alternatives.push(self.sequence());
        }
        self.0.next();
        let mut blocks: Vec<_> =
            alternatives.into_iter().map(|parts| block(parts, bracket)).collect();
        let mut argument = match blocks.len() {
            1 => blocks.remove(0),
            _ => Argument::new("options", Kind::OneOf(blocks)),
        };
        argument.is_optional |= bracket == '[';
        argument
    }
}

/// Arguments that belong together: one alone needs no block, unless it is in braces.
fn block(mut parts: Vec<Argument>, bracket: char) -> Argument {
    match parts.len() {
        1 if bracket != '{' => parts.remove(0),
        _ => Argument::new("block", Kind::Block(parts)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::syntaxes::SYNTAXES;
    use super::*;
    use crate::commands::{self, Command};

    /// An argument as a syntax again.
    fn show(argument: &Argument) -> String {
        let parts =
            |between: &str| argument.parts().iter().map(show).collect::<Vec<_>>().join(between);
        let mut text = match &argument.kind {
            Kind::Word(kind) => format!("{}:{kind}", argument.name),
            Kind::Token => String::new(),
            Kind::OneOf(_) => format!("{}=({})", argument.name, parts(" | ")),
            Kind::Block(_) => format!("{}={{{}}}", argument.name, parts(" ")),
        };
        if let Some(token) = argument.token {
            text = format!("{token} {text}").trim_end().to_owned();
        }
        if argument.is_multiple {
            text.push_str(if argument.repeats_token { "......" } else { "..." });
        }
        if argument.is_optional { format!("[{text}]") } else { text }
    }

    /// The fewest words of arguments, and whether there may be more.
    fn words(arguments: &[Argument]) -> (usize, bool) {
        let counts = arguments.iter().map(|argument| {
            let token = usize::from(argument.token.is_some());
            let (least, varies) = match &argument.kind {
                Kind::Word(_) => (1, false),
                Kind::Token => (0, false),
                Kind::Block(parts) => words(parts),
                Kind::OneOf(parts) => {
                    let all: Vec<_> =
                        parts.iter().map(|part| words(std::slice::from_ref(part))).collect();
                    let least = all.iter().map(|(least, _)| *least).min().unwrap_or(0);
                    (least, all.iter().any(|(count, varies)| *varies || *count != least))
                }
            };
            let least = if argument.is_optional { 0 } else { token + least };
            (least, varies || argument.is_optional || argument.is_multiple)
        });
        counts.fold((0, false), |(sum, any), (least, varies)| (sum + least, any || varies))
    }

    #[test]
    fn a_syntax_is_a_tree() {
        for (syntax, expected) in [
            ("", ""),
            ("key value", "key:key value:string"),
            ("[CH] key...", "[CH] key:key..."),
            ("[LIMIT limit:integer]", "[LIMIT limit:integer]"),
            ("[GET get-pattern:pattern]...", "[GET get-pattern:pattern......]"),
            ("c=(NX | PX milliseconds)", "c=(NX | PX milliseconds:integer)"),
            ("[data={field value}...]", "[data={field:string value:string}...]"),
            ("op=(= | ~)", "op=(= | ~)"),
            ("[change=CH] (id | new=$)", "[CH] options=(id:string | $)"),
            ("a=(x={NO ONE} | b)", "a=(x={NO ONE} | b:string)"),
        ] {
            let tree = parse(syntax);
            let shown = tree.iter().map(show).collect::<Vec<_>>().join(" ");
            assert_eq!(shown, expected, "{syntax}");
        }
        assert_eq!(parse("[change=CH]")[0].name, "change");
    }

    fn check(command: &'static Command) {
        let entries: Vec<_> =
            SYNTAXES.iter().filter(|(name, ..)| *name == command.full_name).collect();
        assert!(entries.len() < 2, "{}", command.full_name);
        let arguments = entries.first().map_or_else(Vec::new, |(.., syntax)| parse(syntax));
        let before = command.full_name.split('|').count();
        let (least, varies) = words(&arguments);
        // QUIT ignores what follows.
        if command.subcommands.is_empty() && command.name != "quit" {
            assert_eq!(
                before + least,
                command.arity.unsigned_abs() as usize,
                "{}",
                command.full_name
            );
            assert_eq!(varies, command.arity < 0, "{}", command.full_name);
        }
        command.subcommands.iter().for_each(check);
    }

    #[test]
    fn syntaxes_have_as_many_words_as_the_table_says() {
        commands::all().iter().for_each(check);
        let all = commands::all().iter();
        let names: Vec<_> = all
            .flat_map(|command| std::iter::once(command).chain(command.subcommands))
            .map(|command| command.full_name)
            .collect();
        for (name, ..) in SYNTAXES {
            assert!(names.contains(name), "{name}");
        }
    }
}
