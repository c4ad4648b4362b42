//! The lines of a config file.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::resp::split_line;

/// The longest file, in bytes.
const FILE_LEN_MAX: u64 = 16 << 20;
/// How deep files may include each other, and how many there may be: a file could include itself.
const DEPTH_MAX: usize = 8;
const FILES_MAX: usize = 1000;

/// A line that sets something.
#[derive(Debug)]
pub(super) struct Line {
    file: Arc<Path>,
    number: usize,
    /// The name, in lower case, and the words behind it.
    pub(super) name: String,
    pub(super) words: Vec<Vec<u8>>,
}

impl Line {
    /// Whether it is in this file, and not in one that it includes.
    pub(super) fn is_of(&self, file: &Path) -> bool {
        *self.file == *file
    }

    /// An error of this line.
    pub(super) fn error(&self, why: String) -> Error {
        Error::ConfigFile { at: format!("{}:{}", self.file.display(), self.number), why }
    }
}

/// The lines of a file that set something, and in the place of a line that includes a file, those of that one.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, Error> {
    let mut reader = Reader { lines: Vec::new(), files: 0 };
    let unreadable = |error: io::Error| Error::ConfigFile {
        at: path.display().to_string(),
        why: error.to_string(),
    };
    reader.read(path, 0, &unreadable)?;
    Ok(reader.lines)
}

struct Reader {
    lines: Vec<Line>,
    files: usize,
}

impl Reader {
    fn read(
        &mut self,
        path: &Path,
        depth: usize,
        unreadable: &dyn Fn(io::Error) -> Error,
    ) -> Result<(), Error> {
        self.files += 1;
        if depth > DEPTH_MAX || self.files > FILES_MAX {
            return Err(unreadable(io::Error::other("files include each other without end")));
        }
        let text = read_all(path).map_err(unreadable)?;
        let file: Arc<Path> = path.into();
        for (index, text) in text.split(|&byte| byte == b'\n').enumerate() {
            let Some(words) = words(text) else { continue };
            let at = |words| Line {
                file: Arc::clone(&file),
                number: index + 1,
                name: String::new(),
                words,
            };
            let words = words.map_err(|why| at(Vec::new()).error(why))?;
            let mut line = at(words);
            let name = line.words.remove(0);
            line.name = String::from_utf8_lossy(&name).to_ascii_lowercase();
            if line.name != "include" {
                self.lines.push(line);
                continue;
            }
            let [included] = &*line.words else {
                return Err(line.error("include takes the path of a file".to_owned()));
            };
            let included = PathBuf::from(String::from_utf8_lossy(included).into_owned());
            let unreadable = |error: io::Error| {
                line.error(format!("cannot include {}: {error}", included.display()))
            };
            self.read(&included, depth + 1, &unreadable)?;
        }
        Ok(())
    }
}

/// The words of a line; `None`: it sets nothing.
pub(super) fn words(line: &[u8]) -> Option<Result<Vec<Vec<u8>>, String>> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return None;
    }
    let words = split_line(line).map_err(|_| "unbalanced quotes".to_owned());
    // A line of NULs has no words.
    Some(words)
        .filter(|words| words.as_ref().is_ok_and(|words| !words.is_empty()) || words.is_err())
}

/// The bytes of a file that is not too long.
pub(super) fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(FILE_LEN_MAX + 1).read_to_end(&mut text)?;
    match text.len() as u64 > FILE_LEN_MAX {
        true => Err(io::Error::other("the file is too long")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_include_others_in_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let (main, other) = (folder.path().join("main"), folder.path().join("other"));
        fs::write(&other, "  port 2\n").unwrap();
        let text =
            format!("# a comment\r\nPort 1\r\n\ninclude {}\nsave \"\" 'x y'", other.display());
        fs::write(&main, text).unwrap();
        let lines = read(&main).unwrap();
        let found: Vec<_> = lines.iter().map(|line| (&*line.name, line.words.concat())).collect();
        let expected =
            [("port", b"1".to_vec()), ("port", b"2".to_vec()), ("save", b"x y".to_vec())];
        assert_eq!(found, expected);
        assert!(lines[1].error("wrong".to_owned()).to_string().contains("other:1: wrong"));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("main");
        let error = |text: String| {
            fs::write(&path, text).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("none: "));
        assert!(error("\n\ninclude /none/at/all".to_owned()).contains("main:3: cannot include"));
        assert!(error(format!("include {}", path.display())).contains("without end"));
        assert!(error("port \"1".to_owned()).contains("main:1: unbalanced quotes"));
        assert!(error("include".to_owned()).contains("main:1: include takes"));
    }
}
