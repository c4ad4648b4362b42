//! The codes of the format: types of values, and what else a file may have in the place of one.

/// Codes of values. A value's code comes before its key.
pub(crate) mod types {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    /// With scores as text.
    pub(crate) const SORTED_SET: u8 = 3;
    pub(crate) const HASH: u8 = 4;
    /// With binary scores.
    pub(crate) const SORTED_SET_2: u8 = 5;
    /// Of the release candidates of Redis 4.0: its length cannot be known without its module.
    pub(crate) const MODULE: u8 = 6;
    pub(crate) const MODULE_2: u8 = 7;
    pub(crate) const HASH_ZIPMAP: u8 = 9;
    pub(crate) const LIST_ZIPLIST: u8 = 10;
    pub(crate) const SET_INTSET: u8 = 11;
    pub(crate) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(crate) const HASH_ZIPLIST: u8 = 13;
    /// Nodes that are ziplists.
    pub(crate) const LIST_QUICKLIST: u8 = 14;
    pub(crate) const STREAM: u8 = 15;
    pub(crate) const HASH_LISTPACK: u8 = 16;
    pub(crate) const SORTED_SET_LISTPACK: u8 = 17;
    /// Nodes that are listpacks or single elements.
    pub(crate) const LIST_QUICKLIST_2: u8 = 18;
    /// With counters of entries.
    pub(crate) const STREAM_2: u8 = 19;
    pub(crate) const SET_LISTPACK: u8 = 20;
    /// With consumers' times of activity.
    pub(crate) const STREAM_3: u8 = 21;
    /// With expiring fields, as the release candidates of Redis 7.4 wrote it: without the earliest expiry.
    pub(crate) const HASH_EXPIRING_RC: u8 = 22;
    pub(crate) const HASH_LISTPACK_EXPIRING_RC: u8 = 23;
    pub(crate) const HASH_EXPIRING: u8 = 24;
    pub(crate) const HASH_LISTPACK_EXPIRING: u8 = 25;
}

/// Codes of other parts of a file.
pub(crate) mod ops {
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    /// Of the release candidates of Redis 7.0.
    pub(crate) const FUNCTION_RC: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQUENCY: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const RESIZE_DB: u8 = 251;
    pub(crate) const EXPIRES_MS: u8 = 252;
    pub(crate) const EXPIRES_SECONDS: u8 = 253;
    pub(crate) const SELECT_DB: u8 = 254;
    pub(crate) const END: u8 = 255;
}

/// Codes of the parts of a module's value.
pub(crate) mod module_parts {
    pub(crate) const END: u64 = 0;
    pub(crate) const SIGNED: u64 = 1;
    pub(crate) const UNSIGNED: u64 = 2;
    pub(crate) const FLOAT: u64 = 3;
    pub(crate) const DOUBLE: u64 = 4;
    pub(crate) const STRING: u64 = 5;
}

/// Codes of strings that are not plain.
pub(crate) mod strings {
    pub(crate) const INT8: u8 = 0;
    pub(crate) const INT16: u8 = 1;
    pub(crate) const INT32: u8 = 2;
    pub(crate) const LZF: u8 = 3;
}

/// Codes of the nodes of a list.
pub(crate) mod nodes {
    pub(crate) const PLAIN: u64 = 1;
    pub(crate) const PACKED: u64 = 2;
}

/// Flags of an entry of a stream.
pub(crate) mod entry_flags {
    pub(crate) const DELETED: u64 = 1;
    /// Its fields have the names of the fields of the node's first entry.
    pub(crate) const SAME_FIELDS: u64 = 2;
}
