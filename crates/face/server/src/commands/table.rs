//! The table of all commands.

use super::{
    acl, admin, backup, bitmap, blocking, changes, client, cluster, command, config, connection,
    counters, debug, digest, dump, expiry, fields, functions, geo, geo_search, hashes, hyperloglog,
    increx, info, keys, latency, lcs, lists, lolwut, memory, migrate, monitor, object, pubsub,
    replication, scan, scripting, set_algebra, sets, slowlog, sort, sorted_sets, streams, strings,
    tracking, transactions,
};

use super::definition::Group::{
    Bitmap, Cluster, Connection, Generic, Geo, Hash, HyperLogLog, List, PubSub, Scripting, Server,
    Set, SortedSet, Stream, String as Text, Transactions,
};
use super::definition::{Command, new, part};
use super::flags::*;
use super::key_positions::MoreKeys;

/// The key in which SORT stores what it has sorted.
const SORTED: MoreKeys = MoreKeys::Behind(2, &["STORE"], &[("LIMIT", 2), ("BY", 1), ("GET", 1)]);

/// A part of CLUSTER.
const fn clustered(full_name: &'static str, arity: i32) -> Command {
    part(full_name, arity, 0, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse)
}

const GROWS: u32 = WRITE | DENY_OOM;
/// Of commands that let collections grow, and of those that let them shrink.
const COLLECTS: u32 = GROWS | GATHERS;
const SHRINKS: u32 = WRITE | GATHERS;
const OPEN: u32 = FAST | NO_AUTH;
/// The keys of XREAD and XREADGROUP.
const STREAMS: MoreKeys =
    MoreKeys::HalfBehind("STREAMS", &[("BLOCK", 1), ("COUNT", 1), ("GROUP", 2), ("NOACK", 0)]);

/// The keys of MIGRATE.
const MIGRATED: MoreKeys = MoreKeys::OneOrBehind(3, "KEYS", (6, &[("AUTH", 1), ("AUTH2", 2)]));
const SUBSCRIBING: u32 = PUBSUB | WHILE_SUBSCRIBED | PUSHES;

/// All commands, by group.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    new("append", 3, GROWS | FAST, Text, "2.0.0", "Adds to the end of a value", strings::append).keys(1, 1, 1),
    new("decr", 2, GROWS | FAST, Text, "1.0.0", "Subtracts one from an integer", counters::decr).keys(1, 1, 1),
    new("decrby", 3, GROWS | FAST, Text, "1.0.0", "Subtracts from an integer", counters::decrby).keys(1, 1, 1),
    new("delex", -2, WRITE | FAST, Text, "8.4.0", "Removes a key on a condition on its value", digest::delex).keys(1, 1, 1),
    new("digest", 2, READ | FAST, Text, "8.4.0", "Returns the digest of a value", digest::digest).keys(1, 1, 1),
    new("get", 2, READ | FAST, Text, "1.0.0", "Returns the value of a key", strings::get).keys(1, 1, 1),
    new("getdel", 2, WRITE | FAST, Text, "6.2.0", "Returns a value and removes its key", strings::getdel).keys(1, 1, 1),
    new("getex", -2, WRITE | FAST, Text, "6.2.0", "Returns a value and sets when its key expires", strings::getex).keys(1, 1, 1),
    new("getrange", 4, READ, Text, "2.4.0", "Returns a part of a value", strings::getrange).keys(1, 1, 1),
    new("getset", 3, GROWS | FAST, Text, "1.0.0", "Sets a value and returns the one before", strings::getset).keys(1, 1, 1),
    new("incr", 2, GROWS | FAST, Text, "1.0.0", "Adds one to an integer", counters::incr).keys(1, 1, 1),
    new("incrby", 3, GROWS | FAST, Text, "1.0.0", "Adds to an integer", counters::incrby).keys(1, 1, 1),
    new("incrbyfloat", 3, GROWS | FAST, Text, "2.6.0", "Adds to a floating-point number", counters::incrbyfloat).keys(1, 1, 1),
    new("increx", -2, GROWS | FAST, Text, "8.8.0", "Adds to a number within bounds, and sets when its key expires", increx::increx).keys(1, 1, 1),
    new("lcs", -3, READ, Text, "7.0.0", "Finds the longest common subsequence of two values", lcs::lcs).keys(1, 2, 1),
    new("mget", -2, READ | FAST, Text, "1.0.0", "Returns the values of several keys", strings::mget).keys(1, -1, 1),
    new("mset", -3, GROWS | MANY_KEYS, Text, "1.0.1", "Sets several keys together", strings::mset).keys(1, -1, 2),
    new("msetex", -4, GROWS | MANY_KEYS, Text, "8.4.0", "Sets several keys together, which expire together", strings::msetex).more_keys(MoreKeys::CountedPairs(1)),
    new("msetnx", -3, GROWS | MANY_KEYS, Text, "1.0.1", "Sets several keys together if none of them exists", strings::msetnx).keys(1, -1, 2),
    new("psetex", 4, GROWS, Text, "2.6.0", "Sets a key that expires in milliseconds", strings::psetex).keys(1, 1, 1),
    new("set", -3, GROWS, Text, "1.0.0", "Sets the value of a key", strings::set).keys(1, 1, 1),
    new("setex", 4, GROWS, Text, "2.0.0", "Sets a key that expires in seconds", strings::setex).keys(1, 1, 1),
    new("setnx", 3, GROWS | FAST, Text, "1.0.0", "Sets a key if it does not exist", strings::setnx).keys(1, 1, 1),
    new("setrange", 4, GROWS, Text, "2.2.0", "Overwrites a part of a value", strings::setrange).keys(1, 1, 1),
    new("substr", 4, READ, Text, "1.0.0", "Returns a part of a value", strings::getrange).keys(1, 1, 1),
    new("strlen", 2, READ | FAST, Text, "2.2.0", "Returns the length of a value", strings::strlen).keys(1, 1, 1),

    new("bitcount", -2, READ, Bitmap, "2.6.0", "Counts the bits of a value that are set", bitmap::count::bitcount).keys(1, 1, 1),
    new("bitfield", -2, GROWS, Bitmap, "3.2.0", "Reads and changes integers among the bits of a value", bitmap::field::bitfield).keys(1, 1, 1),
    new("bitfield_ro", -2, READ | FAST, Bitmap, "6.0.0", "Reads integers among the bits of a value", bitmap::field::bitfield_ro).keys(1, 1, 1),
    new("bitop", -4, GROWS, Bitmap, "2.6.0", "Sets a key to the combined bits of others", bitmap::combine::bitop).keys(2, -1, 1),
    new("bitpos", -3, READ, Bitmap, "2.8.7", "Finds the first bit of a value that is set, or is not", bitmap::position::bitpos).keys(1, 1, 1),
    new("getbit", 3, READ | FAST, Bitmap, "2.2.0", "Returns a bit of a value", bitmap::getbit).keys(1, 1, 1),
    new("setbit", 4, GROWS, Bitmap, "2.2.0", "Sets or clears a bit of a value", bitmap::setbit).keys(1, 1, 1),

    new("pfadd", -2, GROWS | FAST, HyperLogLog, "2.8.9", "Adds elements to a HyperLogLog", hyperloglog::pfadd).keys(1, 1, 1),
    new("pfcount", -2, READ | MAY_REPLICATE, HyperLogLog, "2.8.9", "Estimates how many elements HyperLogLogs have together", hyperloglog::pfcount).keys(1, -1, 1),
    new("pfdebug", 3, GROWS | ADMIN, HyperLogLog, "2.8.9", "Shows how a HyperLogLog is encoded, for tests", hyperloglog::pfdebug).keys(2, 2, 1),
    new("pfmerge", -2, GROWS, HyperLogLog, "2.8.9", "Sets a HyperLogLog to several ones together", hyperloglog::pfmerge).keys(1, -1, 1),
    new("pfselftest", 1, ADMIN, HyperLogLog, "2.8.9", "Tests HyperLogLogs, for tests", hyperloglog::pfselftest),

    new("copy", -3, GROWS | MANY_KEYS, Generic, "6.2.0", "Copies a key", keys::copy).keys(1, 2, 1),
    new("del", -2, WRITE | MANY_KEYS, Generic, "1.0.0", "Removes keys", keys::del).keys(1, -1, 1),
    new("dump", 2, READ, Generic, "2.6.0", "Returns the value of a key as a payload for RESTORE", dump::dump).keys(1, 1, 1),
    new("exists", -2, READ | FAST | ONLY_ASKS, Generic, "1.0.0", "Counts keys that exist", keys::exists).keys(1, -1, 1),
    new("expire", -3, WRITE | FAST, Generic, "1.0.0", "Lets a key expire in seconds", expiry::expire).keys(1, 1, 1),
    new("expireat", -3, WRITE | FAST, Generic, "1.2.0", "Lets a key expire at a time in seconds", expiry::expireat).keys(1, 1, 1),
    new("expiretime", 2, READ | FAST | ONLY_ASKS, Generic, "7.0.0", "Tells at which second a key expires", expiry::expiretime).keys(1, 1, 1),
    new("keys", 2, READ | DANGEROUS | ALL_KEYS | ONLY_ASKS, Generic, "1.0.0", "Returns all keys that match a pattern", scan::keys),
    new("migrate", -6, SHRINKS | AWAITS | DANGEROUS, Generic, "2.6.0", "Moves keys to another server", migrate::migrate).more_keys(MIGRATED),
    new("move", 3, WRITE | FAST | MANY_KEYS, Generic, "1.0.0", "Moves a key to another database", keys::move_to_database).keys(1, 1, 1),
    new("object", -2, 0, Generic, "2.2.3", "Tells how a value is stored", object::help).with(&[
        part("object|encoding", 3, READ | ONLY_ASKS, Generic, "2.2.3", "Tells the encoding of a value", object::encoding).keys(2, 2, 1),
        part("object|freq", 3, READ | ONLY_ASKS, Generic, "4.0.0", "Tells how often a key is used", object::freq).keys(2, 2, 1),
        part("object|help", 2, 0, Generic, "6.2.0", "Lists the subcommands", object::help),
        part("object|idletime", 3, READ | ONLY_ASKS, Generic, "2.2.3", "Tells how long a key was not used", object::idletime).keys(2, 2, 1),
        part("object|refcount", 3, READ | ONLY_ASKS, Generic, "2.2.3", "Tells the references to a value", object::refcount).keys(2, 2, 1),
    ]),
    new("persist", 2, WRITE | FAST, Generic, "2.2.0", "Keeps a key from expiring", expiry::persist).keys(1, 1, 1),
    new("pexpire", -3, WRITE | FAST, Generic, "2.6.0", "Lets a key expire in milliseconds", expiry::pexpire).keys(1, 1, 1),
    new("pexpireat", -3, WRITE | FAST, Generic, "2.6.0", "Lets a key expire at a time in milliseconds", expiry::pexpireat).keys(1, 1, 1),
    new("pexpiretime", 2, READ | FAST | ONLY_ASKS, Generic, "7.0.0", "Tells at which millisecond a key expires", expiry::pexpiretime).keys(1, 1, 1),
    new("pttl", 2, READ | FAST | ONLY_ASKS, Generic, "2.6.0", "Tells the milliseconds until a key expires", expiry::pttl).keys(1, 1, 1),
    new("randomkey", 1, READ | ALL_KEYS | ONLY_ASKS, Generic, "1.0.0", "Returns a random key", keys::randomkey),
    new("rename", 3, WRITE | MANY_KEYS, Generic, "1.0.0", "Renames a key", keys::rename).keys(1, 2, 1),
    new("renamenx", 3, WRITE | FAST | MANY_KEYS, Generic, "1.0.0", "Renames a key if the new name is free", keys::renamenx).keys(1, 2, 1),
    new("restore", -4, COLLECTS | DANGEROUS, Generic, "2.6.0", "Makes a key of the payload of a value", dump::restore).keys(1, 1, 1),
    new("scan", -2, READ | SCANS | ONLY_ASKS, Generic, "2.8.0", "Returns some keys, and where to go on", scan::scan),
    new("sort", -2, COLLECTS | PATTERNS, Generic, "1.0.0", "Sorts the elements of a collection, and may store them", sort::sort).keys(1, 1, 1).more_keys(SORTED),
    new("sort_ro", -2, READ | PATTERNS, Generic, "7.0.0", "Sorts the elements of a collection", sort::sort_ro).keys(1, 1, 1),
    new("wait", 3, 0, Generic, "3.0.0", "Reports how many replicas have the writes: none", cluster::wait),
    new("waitaof", 4, 0, Generic, "7.2.0", "Makes writes durable, and reports that", cluster::waitaof),
    new("touch", -2, READ | FAST | TOUCHES, Generic, "3.2.1", "Counts keys that exist", keys::exists).keys(1, -1, 1),
    new("ttl", 2, READ | FAST | ONLY_ASKS, Generic, "1.0.0", "Tells the seconds until a key expires", expiry::ttl).keys(1, 1, 1),
    new("type", 2, READ | FAST | ONLY_ASKS, Generic, "1.0.0", "Tells the type of a value", keys::key_type).keys(1, 1, 1),
    new("unlink", -2, WRITE | FAST | MANY_KEYS, Generic, "4.0.0", "Removes keys", keys::unlink).keys(1, -1, 1),

    new("blmove", 6, COLLECTS | BLOCKS, List, "6.2.0", "Moves an element to another list, and waits for one", blocking::blmove).keys(1, 2, 1),
    new("blmpop", -5, SHRINKS | BLOCKS, List, "7.0.0", "Takes elements from the first list that has some, and waits for one", blocking::blmpop).more_keys(MoreKeys::Counted(2)),
    new("blpop", -3, SHRINKS | BLOCKS, List, "2.0.0", "Takes the leftmost element of the first list that has one, and waits for one", blocking::blpop).keys(1, -2, 1),
    new("brpop", -3, SHRINKS | BLOCKS, List, "2.0.0", "Takes the rightmost element of the first list that has one, and waits for one", blocking::brpop).keys(1, -2, 1),
    new("brpoplpush", 4, COLLECTS | BLOCKS, List, "2.2.0", "Moves the rightmost element to another list, and waits for one", blocking::brpoplpush).keys(1, 2, 1),
    new("bzmpop", -5, SHRINKS | BLOCKS, SortedSet, "7.0.0", "Takes members from the first sorted set that has some, and waits for one", blocking::bzmpop).more_keys(MoreKeys::Counted(2)),
    new("bzpopmax", -3, SHRINKS | BLOCKS | FAST, SortedSet, "5.0.0", "Takes the member with the highest score, and waits for one", blocking::bzpopmax).keys(1, -2, 1),
    new("bzpopmin", -3, SHRINKS | BLOCKS | FAST, SortedSet, "5.0.0", "Takes the member with the lowest score, and waits for one", blocking::bzpopmin).keys(1, -2, 1),
    new("lindex", 3, READ, List, "1.0.0", "Returns an element of a list by its index", lists::lindex).keys(1, 1, 1),
    new("linsert", 5, COLLECTS, List, "2.2.0", "Inserts an element beside another one", lists::linsert).keys(1, 1, 1),
    new("hdel", -3, SHRINKS | FAST, Hash, "2.0.0", "Removes fields of a hash", hashes::hdel).keys(1, 1, 1),
    new("hexists", 3, READ | FAST, Hash, "2.0.0", "Tells whether a hash has a field", hashes::hexists).keys(1, 1, 1),
    new("hexpire", -6, COLLECTS | FAST, Hash, "7.4.0", "Lets fields expire in seconds", fields::hexpire).keys(1, 1, 1),
    new("hexpireat", -6, COLLECTS | FAST, Hash, "7.4.0", "Lets fields expire at a time in seconds", fields::hexpireat).keys(1, 1, 1),
    new("hexpiretime", -5, READ | FAST, Hash, "7.4.0", "Tells at which second fields expire", fields::hexpiretime).keys(1, 1, 1),
    new("hget", 3, READ | FAST, Hash, "2.0.0", "Returns the value of a field", hashes::hget).keys(1, 1, 1),
    new("hgetall", 2, READ, Hash, "2.0.0", "Returns all fields of a hash with their values", hashes::hgetall).keys(1, 1, 1),
    new("hgetdel", -5, SHRINKS | FAST, Hash, "8.0.0", "Returns the values of fields and removes them", fields::hgetdel).keys(1, 1, 1),
    new("hgetex", -5, SHRINKS | FAST, Hash, "8.0.0", "Returns the values of fields and sets when they expire", fields::hgetex).keys(1, 1, 1),
    new("hincrby", 4, COLLECTS | FAST, Hash, "2.0.0", "Adds to an integer in a field", hashes::hincrby).keys(1, 1, 1),
    new("hincrbyfloat", 4, COLLECTS | FAST, Hash, "2.6.0", "Adds to a floating-point number in a field", hashes::hincrbyfloat).keys(1, 1, 1),
    new("hkeys", 2, READ, Hash, "2.0.0", "Returns all fields of a hash", hashes::hkeys).keys(1, 1, 1),
    new("hlen", 2, READ | FAST, Hash, "2.0.0", "Returns the number of fields of a hash", hashes::hlen).keys(1, 1, 1),
    new("hmget", -3, READ | FAST, Hash, "2.0.0", "Returns the values of fields", hashes::hmget).keys(1, 1, 1),
    new("hmset", -4, COLLECTS | FAST, Hash, "2.0.0", "Sets fields of a hash", hashes::hmset).keys(1, 1, 1),
    new("hpersist", -5, SHRINKS | FAST, Hash, "7.4.0", "Keeps fields from expiring", fields::hpersist).keys(1, 1, 1),
    new("hpexpire", -6, COLLECTS | FAST, Hash, "7.4.0", "Lets fields expire in milliseconds", fields::hpexpire).keys(1, 1, 1),
    new("hpexpireat", -6, COLLECTS | FAST, Hash, "7.4.0", "Lets fields expire at a time in milliseconds", fields::hpexpireat).keys(1, 1, 1),
    new("hpexpiretime", -5, READ | FAST, Hash, "7.4.0", "Tells at which millisecond fields expire", fields::hpexpiretime).keys(1, 1, 1),
    new("hpttl", -5, READ | FAST, Hash, "7.4.0", "Tells the milliseconds until fields expire", fields::hpttl).keys(1, 1, 1),
    new("hrandfield", -2, READ, Hash, "6.2.0", "Returns random fields of a hash", hashes::hrandfield).keys(1, 1, 1),
    new("hscan", -3, READ, Hash, "2.8.0", "Returns some fields of a hash, and where to go on", hashes::hscan).keys(1, 1, 1),
    new("hset", -4, COLLECTS | FAST, Hash, "2.0.0", "Sets fields of a hash", hashes::hset).keys(1, 1, 1),
    new("hsetex", -6, COLLECTS | FAST, Hash, "8.0.0", "Sets fields of a hash, and when they expire", fields::hsetex).keys(1, 1, 1),
    new("hsetnx", 4, COLLECTS | FAST, Hash, "2.0.0", "Sets a field if it does not exist", hashes::hsetnx).keys(1, 1, 1),
    new("hstrlen", 3, READ | FAST, Hash, "3.2.0", "Returns the length of a field's value", hashes::hstrlen).keys(1, 1, 1),
    new("httl", -5, READ | FAST, Hash, "7.4.0", "Tells the seconds until fields expire", fields::httl).keys(1, 1, 1),
    new("hvals", 2, READ, Hash, "2.0.0", "Returns all values of a hash", hashes::hvals).keys(1, 1, 1),

    new("sadd", -3, COLLECTS | FAST, Set, "1.0.0", "Adds members to a set", sets::sadd).keys(1, 1, 1),
    new("scard", 2, READ | FAST, Set, "1.0.0", "Returns the number of members of a set", sets::scard).keys(1, 1, 1),
    new("sdiff", -2, READ, Set, "1.0.0", "Returns the members of a set that others do not have", set_algebra::sdiff).keys(1, -1, 1),
    new("sdiffstore", -3, COLLECTS, Set, "1.0.0", "Stores the members of a set that others do not have", set_algebra::sdiffstore).keys(1, -1, 1),
    new("sinter", -2, READ, Set, "1.0.0", "Returns the members that all sets have", set_algebra::sinter).keys(1, -1, 1),
    new("sintercard", -3, READ, Set, "7.0.0", "Counts the members that all sets have", set_algebra::sintercard).more_keys(MoreKeys::Counted(1)),
    new("sinterstore", -3, COLLECTS, Set, "1.0.0", "Stores the members that all sets have", set_algebra::sinterstore).keys(1, -1, 1),
    new("sismember", 3, READ | FAST, Set, "1.0.0", "Tells whether a set has a member", sets::sismember).keys(1, 1, 1),
    new("smembers", 2, READ, Set, "1.0.0", "Returns all members of a set", sets::smembers).keys(1, 1, 1),
    new("smismember", -3, READ | FAST, Set, "6.2.0", "Tells whether a set has each of some members", sets::smismember).keys(1, 1, 1),
    new("smove", 4, SHRINKS | FAST, Set, "1.0.0", "Moves a member to another set", sets::smove).keys(1, 2, 1),
    new("spop", -2, SHRINKS | FAST, Set, "1.0.0", "Removes random members of a set and returns them", sets::spop).keys(1, 1, 1),
    new("srandmember", -2, READ, Set, "1.0.0", "Returns random members of a set", sets::srandmember).keys(1, 1, 1),
    new("srem", -3, SHRINKS | FAST, Set, "1.0.0", "Removes members of a set", sets::srem).keys(1, 1, 1),
    new("sscan", -3, READ, Set, "2.8.0", "Returns some members of a set, and where to go on", sets::sscan).keys(1, 1, 1),
    new("sunion", -2, READ, Set, "1.0.0", "Returns the members that any set has", set_algebra::sunion).keys(1, -1, 1),
    new("sunionstore", -3, COLLECTS, Set, "1.0.0", "Stores the members that any set has", set_algebra::sunionstore).keys(1, -1, 1),
    new("llen", 2, READ | FAST, List, "1.0.0", "Returns the number of elements of a list", lists::llen).keys(1, 1, 1),
    new("lmove", 5, COLLECTS | MANY_KEYS, List, "6.2.0", "Moves an element from one end of a list to an end of another", lists::lmove).keys(1, 2, 1),
    new("lmpop", -4, SHRINKS | MANY_KEYS, List, "7.0.0", "Takes elements of the first list that has any", lists::lmpop).more_keys(MoreKeys::Counted(1)),
    new("lpop", -2, SHRINKS | FAST, List, "1.0.0", "Takes elements at the left end of a list", lists::lpop).keys(1, 1, 1),
    new("lpos", -3, READ, List, "6.0.6", "Finds elements of a list by their value", lists::lpos).keys(1, 1, 1),
    new("lpush", -3, COLLECTS | FAST, List, "1.0.0", "Adds elements at the left end of a list", lists::lpush).keys(1, 1, 1),
    new("lpushx", -3, COLLECTS | FAST, List, "2.2.0", "Adds elements at the left end of a list that exists", lists::lpushx).keys(1, 1, 1),
    new("lrange", 4, READ, List, "1.0.0", "Returns a range of a list's elements", lists::lrange).keys(1, 1, 1),
    new("lrem", 4, SHRINKS, List, "1.0.0", "Removes elements of a list by their value", lists::lrem).keys(1, 1, 1),
    new("lset", 4, COLLECTS, List, "1.0.0", "Replaces an element of a list", lists::lset).keys(1, 1, 1),
    new("ltrim", 4, SHRINKS, List, "1.0.0", "Removes all elements of a list but a range", lists::ltrim).keys(1, 1, 1),
    new("rpop", -2, SHRINKS | FAST, List, "1.0.0", "Takes elements at the right end of a list", lists::rpop).keys(1, 1, 1),
    new("rpoplpush", 3, COLLECTS | MANY_KEYS, List, "1.2.0", "Moves the last element of a list to the left end of another", lists::rpoplpush).keys(1, 2, 1),
    new("rpush", -3, COLLECTS | FAST, List, "1.0.0", "Adds elements at the right end of a list", lists::rpush).keys(1, 1, 1),
    new("rpushx", -3, COLLECTS | FAST, List, "2.2.0", "Adds elements at the right end of a list that exists", lists::rpushx).keys(1, 1, 1),

    new("zadd", -4, COLLECTS | FAST, SortedSet, "1.2.0", "Adds members to a sorted set, or changes their scores", sorted_sets::zadd).keys(1, 1, 1),
    new("zcard", 2, READ | FAST, SortedSet, "1.2.0", "Returns the number of members of a sorted set", sorted_sets::zcard).keys(1, 1, 1),
    new("zcount", 4, READ | FAST, SortedSet, "2.0.0", "Counts the members between two scores", sorted_sets::ranges::zcount).keys(1, 1, 1),
    new("zdiff", -3, READ, SortedSet, "6.2.0", "Returns the members of a sorted set that others do not have", sorted_sets::algebra::zdiff).more_keys(MoreKeys::Counted(1)),
    new("zdiffstore", -4, COLLECTS | MANY_KEYS, SortedSet, "6.2.0", "Stores the members of a sorted set that others do not have", sorted_sets::algebra::zdiffstore).keys(1, 1, 1).more_keys(MoreKeys::Counted(2)),
    new("zincrby", 4, COLLECTS | FAST, SortedSet, "1.2.0", "Adds to the score of a member", sorted_sets::zincrby).keys(1, 1, 1),
    new("zinter", -3, READ, SortedSet, "6.2.0", "Returns the members that all of some sorted sets have", sorted_sets::algebra::zinter).more_keys(MoreKeys::Counted(1)),
    new("zintercard", -3, READ, SortedSet, "7.0.0", "Counts the members that all of some sorted sets have", sorted_sets::algebra::zintercard).more_keys(MoreKeys::Counted(1)),
    new("zinterstore", -4, COLLECTS | MANY_KEYS, SortedSet, "2.0.0", "Stores the members that all of some sorted sets have", sorted_sets::algebra::zinterstore).keys(1, 1, 1).more_keys(MoreKeys::Counted(2)),
    new("zlexcount", 4, READ | FAST, SortedSet, "2.8.9", "Counts the members between two members", sorted_sets::ranges::zlexcount).keys(1, 1, 1),
    new("zmpop", -4, SHRINKS | MANY_KEYS, SortedSet, "7.0.0", "Takes members with the lowest or highest scores out of the first sorted set that has any", sorted_sets::pops::zmpop).more_keys(MoreKeys::Counted(1)),
    new("zmscore", -3, READ | FAST, SortedSet, "6.2.0", "Returns the scores of members", sorted_sets::zmscore).keys(1, 1, 1),
    new("zpopmax", -2, SHRINKS | FAST, SortedSet, "5.0.0", "Takes the members with the highest scores out of a sorted set", sorted_sets::pops::zpopmax).keys(1, 1, 1),
    new("zpopmin", -2, SHRINKS | FAST, SortedSet, "5.0.0", "Takes the members with the lowest scores out of a sorted set", sorted_sets::pops::zpopmin).keys(1, 1, 1),
    new("zrandmember", -2, READ, SortedSet, "6.2.0", "Returns random members of a sorted set", sorted_sets::zrandmember).keys(1, 1, 1),
    new("zrange", -4, READ, SortedSet, "1.2.0", "Returns a range of a sorted set's members", sorted_sets::ranges::zrange).keys(1, 1, 1),
    new("zrangebylex", -4, READ, SortedSet, "2.8.9", "Returns the members between two members", sorted_sets::ranges::zrangebylex).keys(1, 1, 1),
    new("zrangebyscore", -4, READ, SortedSet, "1.0.5", "Returns the members between two scores", sorted_sets::ranges::zrangebyscore).keys(1, 1, 1),
    new("zrangestore", -5, COLLECTS | MANY_KEYS, SortedSet, "6.2.0", "Stores a range of a sorted set's members", sorted_sets::ranges::zrangestore).keys(1, 2, 1),
    new("zrank", -3, READ | FAST, SortedSet, "2.0.0", "Returns the rank of a member, by ascending scores", sorted_sets::zrank).keys(1, 1, 1),
    new("zrem", -3, SHRINKS | FAST, SortedSet, "1.2.0", "Removes members of a sorted set", sorted_sets::zrem).keys(1, 1, 1),
    new("zremrangebylex", 4, SHRINKS, SortedSet, "2.8.9", "Removes the members between two members", sorted_sets::ranges::zremrangebylex).keys(1, 1, 1),
    new("zremrangebyrank", 4, SHRINKS, SortedSet, "2.0.0", "Removes the members between two ranks", sorted_sets::ranges::zremrangebyrank).keys(1, 1, 1),
    new("zremrangebyscore", 4, SHRINKS, SortedSet, "1.2.0", "Removes the members between two scores", sorted_sets::ranges::zremrangebyscore).keys(1, 1, 1),
    new("zrevrange", -4, READ, SortedSet, "1.2.0", "Returns a range of members, from the highest score on", sorted_sets::ranges::zrevrange).keys(1, 1, 1),
    new("zrevrangebylex", -4, READ, SortedSet, "2.8.9", "Returns the members between two members, from the last on", sorted_sets::ranges::zrevrangebylex).keys(1, 1, 1),
    new("zrevrangebyscore", -4, READ, SortedSet, "2.2.0", "Returns the members between two scores, from the highest on", sorted_sets::ranges::zrevrangebyscore).keys(1, 1, 1),
    new("zrevrank", -3, READ | FAST, SortedSet, "2.0.0", "Returns the rank of a member, by descending scores", sorted_sets::zrevrank).keys(1, 1, 1),
    new("zscan", -3, READ, SortedSet, "2.8.0", "Returns some members with their scores, and where to go on", sorted_sets::zscan).keys(1, 1, 1),
    new("zscore", 3, READ | FAST, SortedSet, "1.2.0", "Returns the score of a member", sorted_sets::zscore).keys(1, 1, 1),
    new("zunion", -3, READ, SortedSet, "6.2.0", "Returns the members that any of some sorted sets has", sorted_sets::algebra::zunion).more_keys(MoreKeys::Counted(1)),
    new("zunionstore", -4, COLLECTS | MANY_KEYS, SortedSet, "2.0.0", "Stores the members that any of some sorted sets has", sorted_sets::algebra::zunionstore).keys(1, 1, 1).more_keys(MoreKeys::Counted(2)),

    new("geoadd", -5, COLLECTS, Geo, "3.2.0", "Adds places to a sorted set", geo::geoadd).keys(1, 1, 1),
    new("geodist", -4, READ, Geo, "3.2.0", "Tells the distance between two places", geo::geodist).keys(1, 1, 1),
    new("geohash", -2, READ, Geo, "3.2.0", "Returns places as geohash texts", geo::geohash).keys(1, 1, 1),
    new("geopos", -2, READ, Geo, "3.2.0", "Returns the coordinates of places", geo::geopos).keys(1, 1, 1),
    new("georadius", -6, COLLECTS | MANY_KEYS, Geo, "3.2.0", "Finds places around coordinates", geo_search::georadius).keys(1, 1, 1).more_keys(MoreKeys::Behind(6, &["STORE", "STOREDIST"], &[("COUNT", 1)])),
    new("georadius_ro", -6, READ, Geo, "3.2.10", "Finds places around coordinates, and stores nothing", geo_search::georadius_ro).keys(1, 1, 1),
    new("georadiusbymember", -5, COLLECTS | MANY_KEYS, Geo, "3.2.0", "Finds places around another one", geo_search::georadiusbymember).keys(1, 1, 1).more_keys(MoreKeys::Behind(5, &["STORE", "STOREDIST"], &[("COUNT", 1)])),
    new("georadiusbymember_ro", -5, READ, Geo, "3.2.10", "Finds places around another one, and stores nothing", geo_search::georadiusbymember_ro).keys(1, 1, 1),
    new("geosearch", -7, READ, Geo, "6.2.0", "Finds places in a circle or a box", geo_search::geosearch).keys(1, 1, 1),
    new("geosearchstore", -8, COLLECTS | MANY_KEYS, Geo, "6.2.0", "Stores places in a circle or a box", geo_search::geosearchstore).keys(1, 2, 1),

    new("xack", -4, SHRINKS | FAST, Stream, "5.0.0", "Acknowledges entries that a group has read", streams::xack).keys(1, 1, 1),
    new("xackdel", -6, SHRINKS | FAST, Stream, "8.2.0", "Acknowledges entries and removes them", streams::xackdel).keys(1, 1, 1),
    new("xadd", -5, COLLECTS | FAST, Stream, "5.0.0", "Adds an entry to a stream", streams::xadd).keys(1, 1, 1),
    new("xautoclaim", -6, SHRINKS | FAST, Stream, "6.2.0", "Gives a consumer entries that others left pending for long", streams::xautoclaim).keys(1, 1, 1),
    new("xclaim", -6, SHRINKS | FAST, Stream, "5.0.0", "Gives a consumer entries that are pending with others", streams::xclaim).keys(1, 1, 1),
    new("xdel", -3, SHRINKS | FAST, Stream, "5.0.0", "Removes entries of a stream", streams::xdel).keys(1, 1, 1),
    new("xdelex", -5, SHRINKS | FAST, Stream, "8.2.0", "Removes entries, with regard to the groups that refer to them", streams::xdelex).keys(1, 1, 1),
    new("xgroup", -2, 0, Stream, "5.0.0", "Commands about groups of consumers", streams::xgroup_help).with(&[
        part("xgroup|create", -5, COLLECTS, Stream, "5.0.0", "Makes a group of consumers", streams::xgroup_create).keys(2, 2, 1),
        part("xgroup|createconsumer", 5, COLLECTS, Stream, "6.2.0", "Makes a consumer", streams::xgroup_createconsumer).keys(2, 2, 1),
        part("xgroup|delconsumer", 5, SHRINKS, Stream, "5.0.0", "Removes a consumer", streams::xgroup_delconsumer).keys(2, 2, 1),
        part("xgroup|destroy", 4, SHRINKS, Stream, "5.0.0", "Removes a group of consumers", streams::xgroup_destroy).keys(2, 2, 1),
        part("xgroup|help", 2, 0, Stream, "5.0.0", "Lists the subcommands", streams::xgroup_help),
        part("xgroup|setid", -5, SHRINKS, Stream, "5.0.0", "Sets the id behind which a group reads on", streams::xgroup_setid).keys(2, 2, 1),
    ]),
    new("xinfo", -2, 0, Stream, "5.0.0", "Commands that tell how a stream is", streams::xinfo_help).with(&[
        part("xinfo|consumers", 4, READ, Stream, "5.0.0", "Lists the consumers of a group", streams::xinfo_consumers).keys(2, 2, 1),
        part("xinfo|groups", 3, READ, Stream, "5.0.0", "Lists the groups of a stream", streams::xinfo_groups).keys(2, 2, 1),
        part("xinfo|help", 2, 0, Stream, "5.0.0", "Lists the subcommands", streams::xinfo_help),
        part("xinfo|stream", -3, READ, Stream, "5.0.0", "Tells how a stream is", streams::xinfo_stream).keys(2, 2, 1),
    ]),
    new("xlen", 2, READ | FAST, Stream, "5.0.0", "Counts the entries of a stream", streams::xlen).keys(1, 1, 1),
    new("xpending", -3, READ, Stream, "5.0.0", "Tells what a group has read and not acknowledged", streams::xpending).keys(1, 1, 1),
    new("xrange", -4, READ, Stream, "5.0.0", "Returns the entries of a range of ids", streams::xrange).keys(1, 1, 1),
    new("xread", -4, READ | BLOCKS, Stream, "5.0.0", "Returns entries of streams behind given ids", streams::xread).more_keys(STREAMS),
    new("xreadgroup", -7, SHRINKS | BLOCKS, Stream, "5.0.0", "Delivers new entries of streams to a consumer", streams::xreadgroup).more_keys(STREAMS),
    new("xrevrange", -4, READ, Stream, "5.0.0", "Returns the entries of a range of ids, the last first", streams::xrevrange).keys(1, 1, 1),
    new("xsetid", -3, COLLECTS | FAST, Stream, "5.0.0", "Sets the last id and the counters of a stream", streams::xsetid).keys(1, 1, 1),
    new("xtrim", -4, SHRINKS, Stream, "5.0.0", "Removes the first entries of a stream", streams::xtrim).keys(1, 1, 1),

    new("eval", -3, SCRIPT | NO_SCRIPT | MAY_REPLICATE, Scripting, "2.6.0", "Runs a script", scripting::eval).more_keys(MoreKeys::Counted(2)),
    new("eval_ro", -3, SCRIPT | READ | NO_SCRIPT, Scripting, "7.0.0", "Runs a script that only reads", scripting::eval_ro).more_keys(MoreKeys::Counted(2)),
    new("evalsha", -3, SCRIPT | NO_SCRIPT | MAY_REPLICATE, Scripting, "2.6.0", "Runs a script by its digest", scripting::evalsha).more_keys(MoreKeys::Counted(2)),
    new("evalsha_ro", -3, SCRIPT | READ | NO_SCRIPT, Scripting, "7.0.0", "Runs a script that only reads, by its digest", scripting::evalsha_ro).more_keys(MoreKeys::Counted(2)),
    new("fcall", -3, SCRIPT | NO_SCRIPT | MAY_REPLICATE, Scripting, "7.0.0", "Calls a function of a library", scripting::fcall).more_keys(MoreKeys::Counted(2)),
    new("fcall_ro", -3, SCRIPT | READ | NO_SCRIPT, Scripting, "7.0.0", "Calls a function that only reads", scripting::fcall_ro).more_keys(MoreKeys::Counted(2)),
    new("function", -2, 0, Scripting, "7.0.0", "Commands about libraries of functions", functions::help).with(&[
        part("function|delete", 3, WRITE | NO_SCRIPT, Scripting, "7.0.0", "Removes a library", functions::delete),
        part("function|dump", 2, NO_SCRIPT, Scripting, "7.0.0", "Returns all libraries as one value", functions::dump),
        part("function|flush", -2, WRITE | NO_SCRIPT, Scripting, "7.0.0", "Removes all libraries", functions::flush),
        part("function|help", 2, 0, Scripting, "7.0.0", "Lists the subcommands", functions::help),
        part("function|kill", 2, NO_SCRIPT | ALLOW_BUSY, Scripting, "7.0.0", "Stops a function that runs for long", functions::kill),
        part("function|list", -2, NO_SCRIPT, Scripting, "7.0.0", "Lists the libraries", functions::list),
        part("function|load", -3, GROWS | NO_SCRIPT, Scripting, "7.0.0", "Adds a library", functions::load),
        part("function|restore", -3, GROWS | NO_SCRIPT, Scripting, "7.0.0", "Adds libraries from one value", functions::restore),
        part("function|stats", 2, NO_SCRIPT | ALLOW_BUSY, Scripting, "7.0.0", "Describes the function that runs for long", functions::stats),
    ]),
    new("script", -2, 0, Scripting, "2.6.0", "Commands about scripts", scripting::help).with(&[
        part("script|debug", 3, NO_SCRIPT, Scripting, "3.2.0", "Is refused: there is no debugger", scripting::debug),
        part("script|exists", -3, NO_SCRIPT, Scripting, "2.6.0", "Tells which scripts are known", scripting::exists),
        part("script|flush", -2, NO_SCRIPT, Scripting, "2.6.0", "Forgets all scripts", scripting::flush),
        part("script|help", 2, 0, Scripting, "5.0.0", "Lists the subcommands", scripting::help),
        part("script|kill", 2, NO_SCRIPT | ALLOW_BUSY, Scripting, "2.6.0", "Stops a script that runs for long", scripting::kill),
        part("script|load", 3, NO_SCRIPT, Scripting, "2.6.0", "Makes a script known", scripting::load),
    ]),

    new("discard", 1, FAST | NOT_QUEUED | NO_SCRIPT | ALLOW_BUSY, Transactions, "2.0.0", "Drops a transaction", transactions::discard),
    new("exec", 1, NOT_QUEUED | EXECUTES | NO_SCRIPT, Transactions, "1.2.0", "Executes a transaction", transactions::exec),
    new("multi", 1, FAST | NOT_QUEUED | NO_SCRIPT | ALLOW_BUSY, Transactions, "1.2.0", "Begins a transaction", transactions::multi),
    new("unwatch", 1, FAST | NO_SCRIPT | ALLOW_BUSY, Transactions, "2.2.0", "Forgets all watched keys", transactions::unwatch),
    new("watch", -2, FAST | NOT_QUEUED | NO_SCRIPT | ONLY_ASKS, Transactions, "2.2.0", "Lets EXEC fail if keys change before it", transactions::watch).keys(1, -1, 1),

    new("auth", -2, OPEN | NO_SCRIPT | ALLOW_BUSY, Connection, "1.0.0", "Authenticates the client", connection::auth),
    new("client", -2, 0, Connection, "2.4.0", "Commands about clients", client::help).with(&[
        part("client|capa", -3, NO_SCRIPT, Connection, "8.0.0", "Names capabilities of the client; no reply depends on them", client::capa),
        part("client|caching", 3, NO_SCRIPT, Connection, "6.0.0", "Has the keys that are read next remembered, or not", tracking::caching),
        part("client|getname", 2, NO_SCRIPT, Connection, "2.6.9", "Returns the client's name", client::getname),
        part("client|getredir", 2, NO_SCRIPT, Connection, "6.0.0", "Returns the client that is told of changes instead", tracking::getredir),
        part("client|help", 2, 0, Connection, "5.0.0", "Lists the subcommands", client::help),
        part("client|id", 2, NO_SCRIPT, Connection, "5.0.0", "Returns the client's number", client::id),
        part("client|info", 2, NO_SCRIPT, Connection, "6.2.0", "Describes this client", client::info),
        part("client|kill", -3, ADMIN | ALL_THREADS | NO_SCRIPT, Connection, "2.4.0", "Disconnects clients", client::kill),
        part("client|list", -2, ADMIN | ALL_THREADS | NO_SCRIPT, Connection, "2.4.0", "Describes all clients", client::list),
        part("client|maint_notifications", -3, NO_SCRIPT | ANY_USER, Connection, "8.4.0", "Asks to be told of maintenance; there is none", client::maint_notifications),
        part("client|no-evict", 3, ADMIN | NO_SCRIPT, Connection, "7.0.0", "Marks the client as not to be evicted", client::no_evict),
        part("client|no-touch", 3, NO_SCRIPT, Connection, "7.2.0", "Lets the client's commands leave the use of keys as it is", client::no_touch),
        part("client|pause", -3, ADMIN | ALONE | NO_SCRIPT, Connection, "3.0.0", "Lets clients wait", client::pause),
        part("client|reply", 3, NO_SCRIPT, Connection, "3.2.0", "Sets which replies the client wants", client::reply),
        part("client|setinfo", 4, NO_SCRIPT, Connection, "7.2.0", "Sets the name and version of the client's library", client::setinfo),
        part("client|setname", 3, NO_SCRIPT, Connection, "2.6.9", "Sets the client's name", client::setname),
        part("client|tracking", -3, NO_SCRIPT, Connection, "6.0.0", "Lets the client be told when keys change", tracking::tracking),
        part("client|trackinginfo", 2, NO_SCRIPT, Connection, "6.2.0", "Tells how the client is told of changes", tracking::trackinginfo),
        part("client|unblock", -3, ADMIN | ALL_THREADS | NO_SCRIPT, Connection, "5.0.0", "Ends the wait of a client for keys", client::unblock),
        part("client|unpause", 2, ADMIN | NO_SCRIPT, Connection, "6.2.0", "Lets waiting clients go on", client::unpause),
    ]),
    new("echo", 2, FAST, Connection, "1.0.0", "Returns its argument", connection::echo),
    new("hello", -1, OPEN | NO_SCRIPT | ALLOW_BUSY, Connection, "6.0.0", "Greets the server and chooses the protocol", connection::hello),
    new("ping", -1, FAST | WHILE_SUBSCRIBED, Connection, "1.0.0", "Asks for a sign of life", connection::ping),
    new("quit", -1, OPEN | NOT_QUEUED | WHILE_SUBSCRIBED | NO_SCRIPT | ALLOW_BUSY, Connection, "1.0.0", "Closes the connection", connection::quit),
    new("reset", 1, OPEN | NOT_QUEUED | WHILE_SUBSCRIBED | NO_SCRIPT | ALLOW_BUSY, Connection, "6.2.0", "Makes the connection as new", connection::reset),
    new("select", 2, FAST, Connection, "1.0.0", "Selects a database", connection::select),

    new("psubscribe", -2, SUBSCRIBING | NO_SCRIPT, PubSub, "2.0.0", "Subscribes to all channels that match patterns", pubsub::psubscribe),
    new("publish", 3, PUBSUB | FAST | MAY_REPLICATE, PubSub, "2.0.0", "Sends a message to a channel", pubsub::publish),
    new("pubsub", -2, 0, PubSub, "2.8.0", "Commands about subscriptions", pubsub::help).with(&[
        part("pubsub|channels", -2, PUBSUB, PubSub, "2.8.0", "Lists channels that have subscribers", pubsub::channels),
        part("pubsub|help", 2, 0, PubSub, "6.2.0", "Lists the subcommands", pubsub::help),
        part("pubsub|numpat", 2, PUBSUB, PubSub, "2.8.0", "Counts the patterns that have subscribers", pubsub::numpat),
        part("pubsub|numsub", -2, PUBSUB, PubSub, "2.8.0", "Counts the subscribers of channels", pubsub::numsub),
        part("pubsub|shardchannels", -2, PUBSUB, PubSub, "7.0.0", "Lists channels of shards that have subscribers", pubsub::shardchannels),
        part("pubsub|shardnumsub", -2, PUBSUB, PubSub, "7.0.0", "Counts the subscribers of channels of shards", pubsub::shardnumsub),
    ]),
    new("punsubscribe", -1, SUBSCRIBING | NO_SCRIPT, PubSub, "2.0.0", "Ends subscriptions to patterns", pubsub::punsubscribe),
    new("spublish", 3, PUBSUB | FAST | MAY_REPLICATE, PubSub, "7.0.0", "Sends a message to a channel of a shard", pubsub::spublish),
    new("ssubscribe", -2, SUBSCRIBING | NO_SCRIPT, PubSub, "7.0.0", "Subscribes to channels of shards", pubsub::ssubscribe),
    new("subscribe", -2, SUBSCRIBING | NO_SCRIPT, PubSub, "2.0.0", "Subscribes to channels", pubsub::subscribe),
    new("sunsubscribe", -1, SUBSCRIBING | NO_SCRIPT, PubSub, "7.0.0", "Ends subscriptions to channels of shards", pubsub::sunsubscribe),
    new("unsubscribe", -1, SUBSCRIBING | NO_SCRIPT, PubSub, "2.0.0", "Ends subscriptions to channels", pubsub::unsubscribe),

    new("asking", 1, FAST, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),
    new("cluster", -2, 0, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse).with(&[
        clustered("cluster|addslots", -3),
        clustered("cluster|addslotsrange", -4),
        clustered("cluster|bumpepoch", 2),
        clustered("cluster|count-failure-reports", 3),
        clustered("cluster|countkeysinslot", 3),
        clustered("cluster|delslots", -3),
        clustered("cluster|delslotsrange", -4),
        clustered("cluster|failover", -2),
        clustered("cluster|flushslots", 2),
        clustered("cluster|forget", 3),
        clustered("cluster|getkeysinslot", 4),
        clustered("cluster|help", 2),
        clustered("cluster|info", 2),
        clustered("cluster|keyslot", 3),
        clustered("cluster|links", 2),
        clustered("cluster|meet", -4),
        clustered("cluster|myid", 2),
        clustered("cluster|nodes", 2),
        clustered("cluster|replicas", 3),
        clustered("cluster|replicate", 3),
        part("cluster|reset", -2, NO_SCRIPT, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),
        clustered("cluster|saveconfig", 2),
        clustered("cluster|set-config-epoch", 3),
        clustered("cluster|setslot", -4),
        clustered("cluster|shards", 2),
        clustered("cluster|slaves", 3),
        clustered("cluster|slots", 2),
    ]),
    new("readonly", 1, FAST, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),
    new("readwrite", 1, FAST, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),

    new("acl", -2, 0, Server, "6.0.0", "Commands about users and their rights", acl::help).with(&[
        part("acl|cat", -2, NO_SCRIPT, Server, "6.0.0", "Lists the categories of commands, or the commands of one", acl::cat),
        part("acl|deluser", -3, ADMIN | NO_SCRIPT, Server, "6.0.0", "Removes users, and disconnects their clients", acl::deluser),
        part("acl|dryrun", -4, ADMIN | NO_SCRIPT, Server, "7.0.0", "Tells whether a user may have a request executed", acl::dryrun),
        part("acl|genpass", -2, NO_SCRIPT, Server, "6.0.0", "Returns random digits that nobody can guess", acl::genpass),
        part("acl|getuser", 3, ADMIN | NO_SCRIPT, Server, "6.0.0", "Tells the rights of a user", acl::getuser),
        part("acl|help", 2, 0, Server, "6.0.0", "Lists the subcommands", acl::help),
        part("acl|list", 2, ADMIN | NO_SCRIPT, Server, "6.0.0", "Lists all users by the rules that make them", acl::list),
        part("acl|load", 2, ADMIN | NO_SCRIPT, Server, "6.0.0", "Takes the users from their file", acl::load),
        part("acl|log", -2, ADMIN | NO_SCRIPT, Server, "6.0.0", "Returns the last refusals, or forgets them", acl::log),
        part("acl|save", 2, ADMIN | NO_SCRIPT, Server, "6.0.0", "Writes the users to their file", acl::save),
        part("acl|setuser", -3, ADMIN | NO_SCRIPT, Server, "6.0.0", "Makes a user, or changes its rights", acl::setuser),
        part("acl|users", 2, ADMIN | NO_SCRIPT, Server, "6.0.0", "Lists the names of all users", acl::users),
        part("acl|whoami", 2, NO_SCRIPT, Server, "6.0.0", "Tells the user of this connection", acl::whoami),
    ]),
    new("bgrewriteaof", 1, ADMIN | NO_SCRIPT, Server, "1.0.0", "Makes everything durable", admin::bgrewriteaof),
    new("bgsave", -1, ADMIN | NO_SCRIPT, Server, "1.0.0", "Makes everything durable", admin::bgsave),
    new("command", -1, 0, Server, "2.8.13", "Describes all commands", command::all).with(&[
        part("command|count", 2, 0, Server, "2.8.13", "Counts the commands", command::count),
        part("command|docs", -2, 0, Server, "7.0.0", "Documents commands", command::docs),
        part("command|getkeys", -3, 0, Server, "2.8.13", "Returns the keys in a request", command::getkeys),
        part("command|getkeysandflags", -3, 0, Server, "7.0.0", "Returns the keys in a request, and what it does to them", command::getkeysandflags),
        part("command|help", 2, 0, Server, "5.0.0", "Lists the subcommands", command::help),
        part("command|info", -2, 0, Server, "2.8.13", "Describes commands", command::info),
        part("command|list", -2, 0, Server, "7.0.0", "Lists the names of commands", command::list),
    ]),
    new("config", -2, 0, Server, "2.0.0", "Commands about the configuration", config::help).with(&[
        part("config|get", -3, ADMIN | NO_SCRIPT, Server, "2.0.0", "Returns parameters", config::get),
        part("config|help", 2, 0, Server, "5.0.0", "Lists the subcommands", config::help),
        part("config|resetstat", 2, ADMIN | NO_SCRIPT, Server, "2.0.0", "Sets the counters of INFO to zero", config::resetstat),
        part("config|rewrite", 2, ADMIN | NO_SCRIPT, Server, "2.8.0", "Writes the configuration to its file", config::rewrite),
        part("config|set", -4, ADMIN | NO_SCRIPT, Server, "2.0.0", "Sets parameters", config::set),
    ]),
    new("dbsize", 1, READ | FAST | ALL_KEYS, Server, "1.0.0", "Counts the keys", admin::dbsize),
    new("debug", -2, ADMIN | PROTECTED | HAS_OTHERS | NO_SCRIPT | ONLY_ASKS, Server, "1.0.0", "Commands for tests", debug::debug).with(&[
        part("debug|digest", 2, ADMIN | PROTECTED | ALL_KEYS | NO_SCRIPT | ONLY_ASKS, Server, "1.0.0", "Returns a digest of all keys", debug::digest),
        part("debug|digest-value", -2, ADMIN | PROTECTED | NO_SCRIPT | ONLY_ASKS, Server, "1.0.0", "Returns digests of values", debug::digest_value).keys(2, -1, 1),
        part("debug|object", 3, ADMIN | PROTECTED | NO_SCRIPT | ONLY_ASKS, Server, "1.0.0", "Describes how a value is stored", debug::object).keys(2, 2, 1),
        part("debug|populate", -3, ADMIN | PROTECTED | GROWS | ALL_KEYS | NO_SCRIPT, Server, "1.0.0", "Sets many keys", debug::populate),
        part("debug|sdslen", 3, ADMIN | PROTECTED | NO_SCRIPT | ONLY_ASKS, Server, "1.0.0", "Tells the lengths of a key and its value", debug::sdslen).keys(2, 2, 1),
    ]),
    new("failover", -1, ADMIN | NO_SCRIPT, Server, "6.2.0", "Is refused: there is no replica", replication::failover),
    new("flushall", -1, WRITE | DANGEROUS | ALL_KEYS, Server, "1.0.0", "Removes all keys of all databases", admin::flushall),
    new("flushdb", -1, WRITE | DANGEROUS | ALL_KEYS, Server, "1.0.0", "Removes all keys", admin::flushdb),
    new("halite.backup", -2, 0, Server, "7.4.0", "Takes a backup while others write", backup::help).with(&[
        part("halite.backup|begin", -2, ADMIN | DANGEROUS | NO_MULTI | ALL_KEYS, Server, "7.4.0", "Begins a backup", backup::begin),
        part("halite.backup|help", 2, 0, Server, "7.4.0", "Lists the subcommands", backup::help),
        part("halite.backup|next", 2, ADMIN | NO_MULTI | AWAITS, Server, "7.4.0", "Returns the next piece of a backup", backup::next),
        part("halite.backup|stop", 2, ADMIN, Server, "7.4.0", "Ends a backup early", backup::stop),
    ]),
    new("halite.changes", -2, 0, Server, "7.4.0", "Reads the change log", changes::help).with(&[
        part("halite.changes|help", 2, 0, Server, "7.4.0", "Lists the subcommands", changes::help),
        part("halite.changes|positions", 2, ADMIN | DANGEROUS | NO_MULTI | NO_SCRIPT | ALL_KEYS, Server, "7.4.0", "Tells from where to where changes can be read", changes::positions),
        part("halite.changes|read", 4, ADMIN | DANGEROUS | NO_MULTI | NO_SCRIPT, Server, "7.4.0", "Returns the changes behind a position", changes::read),
        part("halite.changes|spaces", 2, ADMIN | DANGEROUS | NO_MULTI | NO_SCRIPT | ALL_KEYS, Server, "7.4.0", "Returns the names of the key spaces", changes::spaces),
    ]),
    new("info", -1, DANGEROUS | ALL_THREADS, Server, "1.0.0", "Tells how the server is", info::info),
    new("lastsave", 1, FAST | ADMIN, Server, "1.0.0", "Tells when everything was durable", admin::lastsave),
    new("latency", -2, 0, Server, "2.8.13", "Commands about spikes of latency", latency::help).with(&[
        part("latency|doctor", 2, ADMIN | NO_SCRIPT, Server, "2.8.13", "Sums the spikes up", latency::doctor),
        part("latency|graph", 3, ADMIN | NO_SCRIPT, Server, "2.8.13", "Draws the spikes of an event", latency::graph),
        part("latency|help", 2, 0, Server, "2.8.13", "Lists the subcommands", latency::help),
        part("latency|histogram", -2, ADMIN | NO_SCRIPT, Server, "7.0.0", "Tells how long commands took", latency::histogram),
        part("latency|history", 3, ADMIN | NO_SCRIPT, Server, "2.8.13", "Returns the spikes of an event", latency::history),
        part("latency|latest", 2, ADMIN | NO_SCRIPT, Server, "2.8.13", "Returns the last spike of each event", latency::latest),
        part("latency|reset", -2, ADMIN | NO_SCRIPT, Server, "2.8.13", "Forgets spikes", latency::reset),
    ]),
    new("lolwut", -1, READ | FAST, Server, "5.0.0", "Returns a picture, and the version", lolwut::lolwut),
    new("memory", -2, 0, Server, "4.0.0", "Commands about memory", memory::help).with(&[
        part("memory|doctor", 2, 0, Server, "4.0.0", "Reports problems of memory", memory::doctor),
        part("memory|help", 2, 0, Server, "4.0.0", "Lists the subcommands", memory::help),
        part("memory|malloc-stats", 2, 0, Server, "4.0.0", "Tells of the allocator, which keeps no figures", memory::malloc_stats),
        part("memory|purge", 2, 0, Server, "4.0.0", "Gives memory back, as far as the allocator does", memory::purge),
        part("memory|stats", 2, ALL_THREADS, Server, "4.0.0", "Reports the use of memory", memory::stats),
        part("memory|usage", -3, READ | ONLY_ASKS, Server, "4.0.0", "Tells the memory that a key takes", memory::usage).keys(2, 2, 1),
    ]),
    new("module", -2, 0, Server, "4.0.0", "Commands about modules", cluster::module_help).with(&[
        part("module|help", 2, 0, Server, "5.0.0", "Lists the subcommands", cluster::module_help),
        part("module|list", 2, ADMIN | NO_SCRIPT, Server, "4.0.0", "Returns the modules: there are none", cluster::modules),
        part("module|load", -3, ADMIN | NO_SCRIPT, Server, "4.0.0", "Is refused", cluster::refuse_module),
        part("module|loadex", -3, ADMIN | NO_SCRIPT, Server, "7.0.0", "Is refused", cluster::refuse_module),
        part("module|unload", 3, ADMIN | NO_SCRIPT, Server, "4.0.0", "Is refused", cluster::refuse_module),
    ]),
    new("psync", -3, ADMIN | NO_MULTI | NO_SCRIPT, Server, "2.8.0", "Is refused: there is no replication", replication::refuse),
    new("replconf", -1, ADMIN | NO_SCRIPT, Server, "3.0.0", "Is refused: there is no replication", replication::refuse),
    new("replicaof", 3, ADMIN | NO_SCRIPT, Server, "5.0.0", "Is refused unless it says NO ONE: there is no replication", replication::replicaof),
    new("monitor", 1, ADMIN | NO_SCRIPT, Server, "1.0.0", "Lets the client get the commands of all clients", monitor::monitor),
    new("role", 1, FAST | ADMIN | NO_SCRIPT, Server, "2.8.12", "Tells the role in replication: a master without replicas", cluster::role),
    new("save", 1, ADMIN | NO_MULTI | NO_SCRIPT, Server, "1.0.0", "Makes everything durable", admin::save),
    new("shutdown", -1, ADMIN | NO_MULTI | NO_SCRIPT | ALLOW_BUSY, Server, "1.0.0", "Stops the server", admin::shutdown),
    new("slaveof", 3, ADMIN | NO_SCRIPT, Server, "1.0.0", "Is refused unless it says NO ONE: there is no replication", replication::replicaof),
    new("slowlog", -2, 0, Server, "2.2.12", "Commands about slow commands", slowlog::help).with(&[
        part("slowlog|get", -2, ADMIN, Server, "2.2.12", "Returns slow commands", slowlog::get),
        part("slowlog|help", 2, 0, Server, "6.2.0", "Lists the subcommands", slowlog::help),
        part("slowlog|len", 2, ADMIN, Server, "2.2.12", "Counts slow commands", slowlog::len),
        part("slowlog|reset", 2, ADMIN, Server, "2.2.12", "Forgets slow commands", slowlog::reset),
    ]),
    new("swapdb", 3, WRITE | FAST | DANGEROUS | ALL_KEYS, Server, "4.0.0", "Exchanges two databases", admin::swapdb),
    new("sync", 1, ADMIN | NO_MULTI | NO_SCRIPT, Server, "1.0.0", "Is refused: there is no replication", replication::refuse),
    new("time", 1, FAST, Server, "2.6.0", "Tells the time", admin::time),
];

/// All commands. Those that are parts of others are with these.
pub(crate) fn all() -> &'static [Command] {
    COMMANDS
}

/// The place of a command in the table; `None` for a subcommand.
#[inline]
pub(crate) fn number(command: &'static Command) -> Option<usize> {
    let offset = std::ptr::from_ref(command).addr().wrapping_sub(COMMANDS.as_ptr().addr());
    let number = offset / size_of::<Command>();
    (number < COMMANDS.len()).then_some(number)
}

/// The command called `name`, in upper or lower case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let packed = pack(name)?;
    let mut slot = slot(packed);
    loop {
        match &INDEX[slot] {
            (known, place) if *known == packed => {
                let command = &COMMANDS[usize::from(*place)];
                let is_it = command.name.len() == name.len()
                    && (name.len() <= PACKED || crate::call::is(name, command.name));
                return is_it.then_some(command);
            }
            (0, _) => return None,
            _ => slot = (slot + 1) % INDEX_LEN,
        }
    }
}

/// Open addressing, at most half full: packed name and place in [`COMMANDS`].
static INDEX: [(u128, u16); INDEX_LEN] = {
    let mut index = [(0, 0); INDEX_LEN];
    let mut place = 0;
    while place < COMMANDS.len() {
        let Some(packed) = pack(COMMANDS[place].name.as_bytes()) else {
            panic!("a command has a name without zero bytes")
        };
        let mut slot = slot(packed);
        while index[slot].0 != 0 {
            slot = (slot + 1) % INDEX_LEN;
        }
        index[slot] = (packed, place as u16);
        place += 1;
    }
    index
};

const INDEX_LEN: usize = 1024;

/// Bytes of a name that are packed.
const PACKED: usize = 16;

/// The end of a name as a number, upper and lower case being the same; 0 is no name.
#[inline]
const fn pack(name: &[u8]) -> Option<u128> {
    if name.is_empty() {
        return None;
    }
    let (mut packed, mut index) = (0, name.len().saturating_sub(PACKED));
    while index < name.len() {
        if name[index] == 0 {
            return None;
        }
        packed = packed << 8 | name[index].to_ascii_uppercase() as u128;
        index += 1;
    }
    Some(packed)
}

#[inline]
const fn slot(packed: u128) -> usize {
    let folded = packed as u64 ^ (packed >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % INDEX_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Args;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in COMMANDS {
            let found = find(command.name.as_bytes()).unwrap();
            assert!(std::ptr::eq(found, command), "{}", command.name);
            let upper = command.name.to_ascii_uppercase();
            assert!(std::ptr::eq(find(upper.as_bytes()).unwrap(), command));
        }
        for name in ["", "ge", "gett", "\0get", "get\0", "averyveryverylongname"] {
            assert!(find(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn every_part_is_found_in_its_command() {
        let parts =
            COMMANDS.iter().flat_map(|whole| whole.subcommands.iter().map(move |p| (whole, p)));
        for (whole, part) in parts {
            assert_eq!(part.full_name, format!("{}|{}", whole.name, part.name));
            let found = whole.subcommand(part.name.to_ascii_uppercase().as_bytes()).unwrap();
            assert!(std::ptr::eq(found, part));
        }
    }

    #[test]
    fn no_two_flags_are_one() {
        let all = [
            WRITE,
            READ,
            DENY_OOM,
            ADMIN,
            FAST,
            NO_AUTH,
            ANY_USER,
            NO_MULTI,
            NOT_QUEUED,
            EXECUTES,
            MANY_KEYS,
            DANGEROUS,
            ALL_KEYS,
            SCANS,
            ALL_THREADS,
            ALONE,
            AWAITS,
            PROTECTED,
            HAS_OTHERS,
            GATHERS,
            PATTERNS,
            BLOCKS,
            PUBSUB,
            WHILE_SUBSCRIBED,
            PUSHES,
            MAY_REPLICATE,
            SCRIPT,
            NO_SCRIPT,
            ALLOW_BUSY,
            ONLY_ASKS,
            TOUCHES,
        ];
        let or = all.iter().fold(0, |or, flag| or | flag);
        assert!(all.iter().all(|flag| flag.is_power_of_two()));
        assert_eq!(or.count_ones() as usize, all.len());
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let indexes = |text: &str, more: Option<MoreKeys>| {
            let mut ranges = Vec::new();
            let mut start = 0;
            for word in text.split(' ') {
                ranges.push(start..start + word.len());
                start += word.len() + 1;
            }
            let args = Args::new(text.as_bytes(), &ranges);
            match more {
                Some(more) => more.indexes(args),
                None => find(&args[0]).unwrap().key_indexes(args).collect(),
            }
        };
        assert_eq!(indexes("get a", None), [1]);
        assert_eq!(indexes("mset a 1 b 2", None), [1, 3]);
        assert_eq!(indexes("rename a b", None), [1, 2]);
        assert!(indexes("ping a", None).is_empty());
        for (text, more, expected) in [
            ("zunion 2 a b weights 1 2", MoreKeys::Counted(1), &[2, 3][..]),
            ("zunion 3 a b", MoreKeys::Counted(1), &[]),
            ("zunion x a b", MoreKeys::Counted(1), &[]),
            ("zunion -1 a b", MoreKeys::Counted(1), &[]),
            ("sort a by w store b", SORTED, &[5]),
            ("sort a store", SORTED, &[]),
            ("sort a store b by store get store store c limit store 1", SORTED, &[9]),
            ("georadius a 0 0 1 m store b store c", MoreKeys::Behind(6, &["STORE"], &[]), &[9]),
            ("sort a store b by store store c get store", SORTED, &[7]),
            ("xread count 2 streams a b 0 0", STREAMS, &[4, 5]),
            ("xread count 2 streams", STREAMS, &[]),
            ("xread count streams streams a 0", STREAMS, &[4]),
            ("xreadgroup noack group streams c streams a b > >", STREAMS, &[6, 7]),
            ("xread nonsense streams a 0", STREAMS, &[]),
            ("migrate h 1 a 0 9 copy", MIGRATED, &[3]),
            ("migrate h 1  0 9 auth keys keys a b", MIGRATED, &[9, 10]),
            ("migrate h 1  0 9", MIGRATED, &[3]),
        ] {
            assert_eq!(indexes(text, Some(more)), expected, "{text}");
        }
    }
}
