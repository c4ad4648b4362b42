//! The description of a pool: classes of vdevs, from the fastest to the slowest.
//!
//! It is written as text (`text`) or as JSON (`json`), and checked in one place for both (`check`):
//!
//! ```text
//! pmem:/mnt/pm/p0 ; mirror file:/a file:/b ; prefer=sequential parity1 /c /d /e@64G single /f
//! ```

mod check;
mod error;
mod json;
mod size;
mod text;

pub use error::TopologyError;

use crate::Arrangement;

/// The most classes of a pool.
pub const CLASSES_MAX: usize = 4;

/// The most vdevs of a class.
pub const VDEVS_MAX: usize = 1024;

/// The classes of a pool, the fastest first. It has been checked: no device is there twice, and every vdev has leaves
/// that make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    classes: Vec<Class>,
}

/// The devices of one class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Class {
    /// The access for which the class is best, if the user says so.
    pub preferred_access: Option<PreferredAccess>,
    /// Its vdevs.
    pub vdevs: Vec<VdevTopology>,
}

/// A way to read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PreferredAccess {
    /// Here and there.
    Random,
    /// One after the other.
    Sequential,
}

impl PreferredAccess {
    const ALL: [Self; 2] = [Self::Random, Self::Sequential];

    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|access| access.name() == name)
    }
}

/// A vdev to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VdevTopology {
    /// How its leaves share the data.
    pub arrangement: Arrangement,
    /// Its leaves, in order.
    pub leaves: Vec<LeafPlace>,
}

/// Where a leaf is, and how large it may become, in bytes; without a size, as large as its device lets it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeafPlace {
    /// A file.
    File {
        /// Its path.
        path: String,
        /// The limit of its data.
        size: Option<u64>,
    },
    /// A pool of persistent memory.
    Pmem {
        /// Its path; without one, the pool that the store itself is in.
        path: String,
        /// The limit of its data.
        size: Option<u64>,
    },
    /// Memory of the process.
    Memory {
        /// The limit of its data.
        size: u64,
    },
}

impl LeafPlace {
    /// The path, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::File { path, .. } | Self::Pmem { path, .. } => Some(path),
            Self::Memory { .. } => None,
        }
    }

    /// The limit of its data, in bytes.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match *self {
            Self::File { size, .. } | Self::Pmem { size, .. } => size,
            Self::Memory { size } => Some(size),
        }
    }
}

impl Topology {
    /// Checks classes.
    ///
    /// # Errors
    /// The [`TopologyError`] of the first defect.
    pub fn new(classes: Vec<Class>) -> Result<Self, TopologyError> {
        check::check(&classes)?;
        Ok(Self { classes })
    }

    /// The classes, the fastest first.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Reads the JSON form:
    ///
    /// ```json
    /// {"classes": [
    ///     {"vdevs": [{"mirror": [{"file": "/a", "size": "64G"}, {"file": "/b", "size": "64G"}]}, {"memory": "1G"}],
    ///      "preferred_access": "random"}
    /// ]}
    /// ```
    ///
    /// # Errors
    /// The [`TopologyError`] of the first defect.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, TopologyError> {
        Self::new(json::read(json)?)
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json::write(&self.classes)
    }
}

impl std::str::FromStr for Topology {
    type Err = TopologyError;

    /// Reads text, or JSON if it begins with `{`.
    fn from_str(text: &str) -> Result<Self, TopologyError> {
        if text.trim_start().starts_with('{') {
            let json = serde_json::from_str(text);
            return Self::from_json(
                &json.map_err(|error| TopologyError::Syntax { why: error.to_string() })?,
            );
        }
        Self::new(text::read(text)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaf() -> impl Strategy<Value = (bool, String, Option<u64>)> {
        // Paths with all that has a meaning in the text form.
        let path = r#"[a-z/@;:" \\é=]{1,12}"#;
        (any::<bool>(), path, prop::option::of((1_u64..1 << 40).prop_map(|blocks| blocks * 4096)))
    }

    fn topology() -> impl Strategy<Value = Topology> {
        let vdev = (0..5_usize, prop::collection::vec(leaf(), 5));
        let class = (prop::collection::vec(vdev, 1..5), 0..3_usize);
        prop::collection::vec(class, 1..=CLASSES_MAX).prop_map(|classes| {
            let mut number = 0;
            let mut vdev = |(kind, leaves): (usize, Vec<(bool, String, Option<u64>)>)| {
                let (arrangement, count) = [
                    (Arrangement::Single, 1),
                    (Arrangement::Mirror, 3),
                    (Arrangement::Parity(1), 4),
                    (Arrangement::Parity(2), 4),
                    (Arrangement::Parity(3), 5),
                ][kind];
                let common = leaves[0].2;
                let leaves = leaves.into_iter().take(count).map(|(is_file, path, size)| {
                    number += 1;
                    let path = format!("{path}/{number}");
                    let size = if arrangement == Arrangement::Mirror { common } else { size };
                    match (is_file, size) {
                        (true, size) => LeafPlace::File { path, size },
                        (false, Some(size)) if number % 3 == 0 => LeafPlace::Memory { size },
                        (false, size) => LeafPlace::Pmem { path, size },
                    }
                });
                VdevTopology { arrangement, leaves: leaves.collect() }
            };
            let classes = classes.into_iter().map(|(vdevs, access)| Class {
                preferred_access: PreferredAccess::ALL.get(access).copied(),
                vdevs: vdevs.into_iter().map(&mut vdev).collect(),
            });
            Topology::new(classes.collect()).unwrap()
        })
    }

    proptest! {
        #[test]
        fn both_forms_are_read_as_what_was_written(topology in topology()) {
            let text = topology.to_string();
            prop_assert_eq!(&text.parse::<Topology>().unwrap(), &topology);
            prop_assert_eq!(&Topology::from_json(&topology.to_json()).unwrap(), &topology);
            prop_assert_eq!(&topology.to_json().to_string().parse::<Topology>().unwrap(), &topology);
        }

        #[test]
        fn no_text_leads_to_a_panic(text in any::<String>()) {
            let _ = text.parse::<Topology>();
        }

        #[test]
        fn no_words_lead_to_a_panic(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "mirror", "parity1", "parity3", "single", ";", "/a", "/b@4K", "\"", "\\", "@", "memory:1M",
                    "memory:", "file:", "pmem:x", "prefer=", "prefer=random", "{", "{}", "[", ":", "1", "é",
                ]),
                0..12,
            ),
            separator in " ?",
        ) {
            if let Ok(topology) = words.join(&separator).parse::<Topology>() {
                prop_assert_eq!(topology.to_string().parse::<Topology>().unwrap(), topology);
            }
        }
    }

    fn error(text: &str) -> TopologyError {
        text.parse::<Topology>().unwrap_err()
    }

    #[test]
    fn the_example_is_read() {
        let text = "pmem:/mnt/pm/p0;mirror file:/a file:/b ; \
                    prefer=sequential parity1 /c /d /e@64G single /f memory:1M";
        let topology: Topology = text.parse().unwrap();
        let classes = topology.classes();
        assert_eq!(classes.iter().map(|class| class.vdevs.len()).collect::<Vec<_>>(), [1, 1, 3]);
        assert_eq!(classes[2].preferred_access, Some(PreferredAccess::Sequential));
        assert_eq!(classes[2].vdevs[0].leaves[2].size(), Some(64 << 30));
        assert_eq!(
            topology.to_string(),
            "pmem:/mnt/pm/p0 ; mirror file:/a file:/b ; \
             prefer=sequential parity1 file:/c file:/d file:/e@64G single file:/f memory:1M"
        );
    }

    #[test]
    fn every_defect_has_a_name() {
        use TopologyError as E;
        assert!(matches!(error(""), E::Empty));
        assert!(matches!(error("/a ; ; /b"), E::EmptyClass { class: 1 }));
        assert!(matches!(error("/a;/b;/c;/d;/e"), E::TooManyClasses { found: 5, .. }));
        let many: Vec<_> = (0..1025).map(|number| format!("/{number}")).collect();
        assert!(matches!(error(&many.join(" ")), E::TooManyVdevs { class: 0, found: 1025, .. }));
        assert!(matches!(error("miror /a /b"), E::UnknownWord { .. }));
        assert!(matches!(error("parity4 /a /b"), E::UnknownWord { .. }));
        assert!(matches!(error("/a \"/b"), E::OpenQuotation { .. }));
        assert!(matches!(error("/a prefer=random"), E::Preference { .. }));
        assert!(matches!(error("prefer=fast /a"), E::Preference { .. }));
        for size in
            ["/a@", "/a@0", "/a@1", "/a@4X", "/a@99999999999999T", "memory:", "memory:x", "/a@1é"]
        {
            assert!(matches!(error(size), E::Size { .. }), "{size}");
        }
        assert!(matches!(error("file:"), E::Path { .. }));
        assert!(matches!(error("/a ; pmem://a/."), E::SamePath { .. }));
        assert!(matches!(error("mirror /a"), E::Leaves { .. }));
        assert!(matches!(error("mirror ; /a"), E::Leaves { .. }));
        assert!(matches!(error("single"), E::Leaves { .. }));
        assert!(matches!(error("parity2 /a /b /c"), E::Leaves { .. }));
        assert!(matches!(error("mirror /a@4K /b@8K"), E::SizesDiffer { .. }));
        assert!(matches!(error("mirror /a@4K /b"), E::SizesDiffer { .. }));
        assert!(matches!(error("{\"classes\": ["), E::Syntax { .. }));
        for (json, key) in [
            (r#"{"classes": [], "x": 1}"#, "x"),
            (r#"{"classes": [{"vdevs": [], "y": 1}]}"#, "y"),
            (r#"{"classes": [{"vdevs": [{"miror": []}]}]}"#, "miror"),
            (r#"{"classes": [{"vdevs": [{"file": "/a", "z": 1}]}]}"#, "z"),
        ] {
            let E::UnknownKey { key: found, .. } = error(json) else { panic!("{json}") };
            assert_eq!(found, key);
        }
        for json in [
            "{}",
            r#"{"classes": {}}"#,
            r#"{"classes": [{}]}"#,
            r#"{"classes": [{"vdevs": ["/a"]}]}"#,
            r#"{"classes": [{"vdevs": [{"mirror": 1}]}]}"#,
            r#"{"classes": [{"vdevs": [{"mirror": [], "parity1": []}]}]}"#,
            r#"{"classes": [{"vdevs": [{"file": 1}]}]}"#,
            r#"{"classes": [{"vdevs": [{"file": "/a", "size": true}]}]}"#,
            r#"{"classes": [{"vdevs": [{"file": "/a"}], "preferred_access": 1}]}"#,
        ] {
            assert!(matches!(error(json), E::Json { .. }), "{json}: {:?}", error(json));
        }
    }
}
