//! The defects of a description of a pool.

/// A description of a pool that is none: the place, the reason, the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// No class has a device.
    #[error("the description names no device; name one, as `file:/path`")]
    Empty,

    /// There are more classes than a pool has.
    #[error(
        "there are {found} classes, and a pool has {max} at most; put vdevs of like speed into one class"
    )]
    TooManyClasses {
        /// Classes in the description.
        found: usize,
        /// The limit.
        max: usize,
    },

    /// A class has no vdev.
    #[error("class {class} has no device; name one, or leave the class out")]
    EmptyClass {
        /// The number of the class, from 0 on.
        class: usize,
    },

    /// A class has more vdevs than an address can tell apart.
    #[error(
        "class {class} has {found} vdevs, and {max} are the most; use larger devices, or another class"
    )]
    TooManyVdevs {
        /// The number of the class, from 0 on.
        class: usize,
        /// Its vdevs.
        found: usize,
        /// The limit.
        max: usize,
    },

    /// A word is neither a keyword nor a leaf.
    #[error(
        "`{word}` is no device and no keyword; write a file as `file:{word}`, or `mirror`, `parity1`, `parity2`, \
         `parity3` or `single` before leaves"
    )]
    UnknownWord {
        /// The word.
        word: String,
    },

    /// A quotation does not end.
    #[error("the quotation that begins with `{begin}` does not end; close it with `\"`")]
    OpenQuotation {
        /// Its first characters.
        begin: String,
    },

    /// A preference is not at the start of its class, or unknown.
    #[error(
        "`{word}` is no preference; write `prefer=random` or `prefer=sequential` before the first vdev of a class"
    )]
    Preference {
        /// The word.
        word: String,
    },

    /// A size is none.
    #[error(
        "`{size}` is no size; write a number of bytes above 0, a multiple of 4096, as `64G` with K, M, G or T; put a \
         path with `@` in quotation marks"
    )]
    Size {
        /// The size.
        size: String,
    },

    /// A path is empty, or no path.
    #[error("the path {path:?} is empty or has a character that no path has; name the device")]
    Path {
        /// The path.
        path: String,
    },

    /// A path is there twice.
    #[error("{path}: named twice; a device is in a pool once, name another one")]
    SamePath {
        /// The path.
        path: String,
    },

    /// The number of leaves does not suit their vdev.
    #[error("`{vdev}`: {why}")]
    Leaves {
        /// The vdev.
        vdev: String,
        /// How many there are, and should be.
        why: String,
    },

    /// The leaves of a mirror have different sizes.
    #[error("`{vdev}`: the leaves of a mirror have one size; give all the same, or none")]
    SizesDiffer {
        /// The vdev.
        vdev: String,
    },

    /// The text is no JSON.
    #[error("the description begins as JSON, and is none: {why}")]
    Syntax {
        /// The parser's reason.
        why: String,
    },

    /// A JSON value is not what belongs there.
    #[error("{at}: {wanted}")]
    Json {
        /// The place, as a path of keys.
        at: String,
        /// The value that belongs there.
        wanted: &'static str,
    },

    /// A JSON object has a key that is not known.
    #[error("{at}: there is no key `{key}`; known are {known}")]
    UnknownKey {
        /// The place, as a path of keys.
        at: String,
        /// The key.
        key: String,
        /// The known ones.
        known: String,
    },
}
