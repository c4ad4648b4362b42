//! Properties of commands, as bits.

/// It changes keys.
pub(crate) const WRITE: u32 = 1;
/// It reads keys and changes no key.
pub(crate) const READ: u32 = 1 << 1;
/// It needs room: it fails when the store is full.
pub(crate) const DENY_OOM: u32 = 1 << 2;
/// It is for administrators.
pub(crate) const ADMIN: u32 = 1 << 3;
/// Its time does not depend on the size of the database.
pub(crate) const FAST: u32 = 1 << 4;
/// It is open to clients that have not authenticated.
pub(crate) const NO_AUTH: u32 = 1 << 5;
/// It cannot be part of a transaction.
pub(crate) const NO_MULTI: u32 = 1 << 6;
/// It is executed at once also between MULTI and EXEC.
pub(crate) const NOT_QUEUED: u32 = 1 << 7;
/// It executes a transaction.
pub(crate) const EXECUTES: u32 = 1 << 8;
/// It changes several keys, together.
pub(crate) const MANY_KEYS: u32 = 1 << 9;
/// It can do harm to other clients.
pub(crate) const DANGEROUS: u32 = 1 << 10;

/// It looks at, or changes, the keys of all partitions.
pub(crate) const ALL_KEYS: u32 = 1 << 11;
/// It looks at the keys of the partition that its cursor names.
pub(crate) const SCANS: u32 = 1 << 12;
/// It is about all threads of the server.
pub(crate) const ALL_THREADS: u32 = 1 << 13;
/// It is executed while no other thread executes a command on keys.
pub(crate) const ALONE: u32 = 1 << 14;
/// It has no effect that any rule could be about: clients send it before they know their rights.
pub(crate) const ANY_USER: u32 = 1 << 15;
/// It waits for the next piece of the client's backup, or for the end of the client's migration.
pub(crate) const AWAITS: u32 = 1 << 16;
/// It is refused unless the configuration allows it.
pub(crate) const PROTECTED: u32 = 1 << 17;
/// It has subcommands that are not parts of it in the table.
pub(crate) const HAS_OTHERS: u32 = 1 << 20;

/// It changes a collection: its changes gather, and are applied together when it ends.
pub(crate) const GATHERS: u32 = 1 << 18;
/// It may read keys that its words describe by patterns: see [`super::sort::reads_patterns`].
pub(crate) const PATTERNS: u32 = 1 << 21;

/// It may let its client wait for its keys.
pub(crate) const BLOCKS: u32 = 1 << 19;

/// It is about messages.
pub(crate) const PUBSUB: u32 = 1 << 22;
/// A client may send it while it reads messages over RESP2.
pub(crate) const WHILE_SUBSCRIBED: u32 = 1 << 23;
/// Its replies are messages, which CLIENT REPLY does not silence.
pub(crate) const PUSHES: u32 = 1 << 24;

/// It waits, as those that write do, when CLIENT PAUSE keeps writes back, and scripts that only read cannot execute
/// it: Redis would hand it on to replicas.
pub(crate) const MAY_REPLICATE: u32 = 1 << 27;

/// It runs a script, whose keys follow their number.
pub(crate) const SCRIPT: u32 = 1 << 28;
/// A script cannot execute it.
pub(crate) const NO_SCRIPT: u32 = 1 << 29;
/// It is executed while a script runs for long.
pub(crate) const ALLOW_BUSY: u32 = 1 << 30;
/// It only asks about keys, which is no use of them.
pub(crate) const ONLY_ASKS: u32 = 1 << 25;
/// It is a use of its keys also of a client whose commands are none (CLIENT NO-TOUCH).
pub(crate) const TOUCHES: u32 = 1 << 26;

/// The names of those that COMMAND tells.
pub(crate) const NAMES: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (DENY_OOM, "denyoom"),
    (ADMIN, "admin"),
    (NO_SCRIPT, "noscript"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (ALLOW_BUSY, "allow_busy"),
    (NO_MULTI, "no_multi"),
    (BLOCKS, "blocking"),
    (PUBSUB, "pubsub"),
    (MAY_REPLICATE, "may_replicate"),
];
