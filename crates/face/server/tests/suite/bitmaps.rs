//! Bits of values: every offset, range, operation and field, and what is refused.

use crate::common::Running;

on_threads! {
    single_bits_are_set_and_read
    bits_are_counted_in_ranges
    the_first_bit_is_found
    values_are_combined
    fields_are_integers_among_the_bits
    malformed_requests_are_refused
    the_longest_value_bounds_the_offsets
    a_deadline_stays_with_changed_bits
}

const NO_OFFSET: &str = "-ERR bit offset is not an integer or out of range";
const SYNTAX: &str = "-ERR syntax error";

fn single_bits_are_set_and_read() {
    Running::start().client().check(&[
        ("SETBIT k 7 1", ":0"),
        ("SETBIT k 7 1", ":1"),
        ("GET k", "\"\\x01\""),
        ("SETBIT k 16 1", ":0"),
        ("GET k", "\"\\x01\\x00\\x80\""),
        ("SETBIT k 7 0", ":1"),
        ("GETBIT k 16", ":1"),
        ("GETBIT k 7", ":0"),
        ("GETBIT k 1000000", ":0"),
        ("GETBIT none 0", ":0"),
        ("SETBIT none 3 0", ":0"),
        ("STRLEN none", ":1"),
        ("OBJECT ENCODING none", "\"raw\""),
        ("SET n 1", "+OK"),
        ("SETBIT n 7 1", ":1"),
        ("OBJECT ENCODING n", "\"raw\""),
        ("GET n", "\"1\""),
    ]);
}

fn bits_are_counted_in_ranges() {
    Running::start().client().check(&[
        ("SET k foobar", "+OK"),
        ("BITCOUNT k", ":26"),
        ("BITCOUNT k 0 0", ":4"),
        ("BITCOUNT k 1 1 BYTE", ":6"),
        ("BITCOUNT k 5 30 BIT", ":17"),
        ("BITCOUNT k 5 -8 BIT", ":20"),
        ("BITCOUNT k -2 -1", ":7"),
        ("BITCOUNT k -9 -10", ":0"),
        ("BITCOUNT k 9 10", ":0"),
        ("BITCOUNT none", ":0"),
        ("BITCOUNT none 0 -1 BIT", ":0"),
        ("BITCOUNT k 0", SYNTAX),
        ("BITCOUNT k 0 1 HELLO", SYNTAX),
        ("BITCOUNT k a b", "-ERR value is not an integer or out of range"),
        ("BITCOUNT none a b", "-ERR value is not an integer or out of range"),
    ]);
}

fn the_first_bit_is_found() {
    let server = Running::start();
    let mut client = server.client();
    client.call(&[&b"SET"[..], b"ones", b"\xff\xff\xff"]);
    client.call(&[&b"SET"[..], b"k", b"\x00\x0f\xff"]);
    client.check(&[
        ("BITPOS k 1", ":12"),
        ("BITPOS k 0", ":0"),
        ("BITPOS k 0 1", ":8"),
        ("BITPOS k 0 2", ":24"),
        ("BITPOS k 0 2 -1", ":-1"),
        ("BITPOS k 1 13 15 BIT", ":13"),
        ("BITPOS k 0 12 15 BIT", ":-1"),
        ("BITPOS k 1 0 11 BIT", ":-1"),
        ("BITPOS ones 0", ":24"),
        ("BITPOS ones 0 0 -1", ":-1"),
        ("BITPOS none 0", ":0"),
        ("BITPOS none 1", ":-1"),
        ("SET empty ''", "+OK"),
        ("BITPOS empty 0", ":-1"),
        ("BITPOS k 2", "-ERR The bit argument must be 1 or 0."),
        ("BITPOS k 0 0 1 HELLO", SYNTAX),
        ("BITPOS k 0 0 1 BIT 2", SYNTAX),
    ]);
}

fn values_are_combined() {
    let server = Running::start();
    let mut client = server.client();
    client.call(&[&b"SET"[..], b"a", b"\xff\xf0"]);
    client.call(&[&b"SET"[..], b"b", b"\x0f"]);
    client.call(&[&b"SET"[..], b"c", b"\x33\x33\x33"]);
    for (request, expected) in [
        ("BITOP AND d a b", "\\x0f\\x00"),
        ("BITOP or d a b c", "\\xff\\xf33"),
        ("BITOP XOR d a b", "\\xf0\\xf0"),
        ("BITOP NOT d b", "\\xf0"),
        ("BITOP DIFF d a b c", "\\xc0\\xc0\\x00"),
        ("BITOP DIFF1 d b a c", "\\xf0\\xf33"),
        ("BITOP ANDOR d a b c", "?0\\x00"),
        ("BITOP ONE d a b c", "\\xc0\\xc33"),
        ("BITOP OR d a", "\\xff\\xf0"),
    ] {
        client.check(&[("SET d x EX 1000", "+OK")]);
        client.ask(request);
        assert_eq!(client.ask("GET d"), format!("\"{expected}\""), "{request}");
        assert_eq!(client.ask("TTL d"), ":-1");
    }
    client.check(&[
        ("BITOP AND d none none", ":0"),
        ("EXISTS d", ":0"),
        ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key."),
        ("BITOP DIFF d a", "-ERR BITOP DIFF must be called with at least two source keys."),
        ("BITOP andor d a", "-ERR BITOP ANDOR must be called with at least two source keys."),
        ("BITOP NAND d a b", SYNTAX),
        ("BITOP NOT a a", ":2"),
        ("GET a", "\"\\x00\\x0f\""),
    ]);
}

fn fields_are_integers_among_the_bits() {
    Running::start().client().check(&[
        ("BITFIELD k SET u8 0 255 GET u8 0 GET i8 0 GET u4 4", "[:0, :255, :-1, :15]"),
        ("BITFIELD k SET i8 #1 -100 GET i8 8 GET u16 0", "[:0, :-100, :65436]"),
        ("BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1", "[:1, :1]"),
        ("BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1", "[:2, :2]"),
        ("BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1", "[:3, :3]"),
        ("BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1", "[:0, :3]"),
        ("BITFIELD k OVERFLOW FAIL INCRBY u2 102 1", "[nil]"),
        (
            "BITFIELD k SET i64 200 -9223372036854775808 OVERFLOW WRAP INCRBY i64 200 -1",
            "[:0, :9223372036854775807]",
        ),
        ("BITFIELD k SET u63 400 9223372036854775807 GET u63 400", "[:0, :9223372036854775807]"),
        ("BITFIELD_RO k GET u8 0 GET u8 100000", "[:255, :0]"),
        ("BITFIELD_RO none GET i64 0", "[:0]"),
        ("EXISTS none", ":0"),
        ("BITFIELD none", "[]"),
        ("BITFIELD none OVERFLOW FAIL SET u1 0 2", "[nil]"),
        ("GET none", "\"\\x00\""),
    ]);
}

fn malformed_requests_are_refused() {
    let no_type = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
    Running::start().client().check(&[
        ("SETBIT k -1 1", NO_OFFSET),
        ("SETBIT k x 1", NO_OFFSET),
        ("GETBIT k #1", NO_OFFSET),
        ("SETBIT k 0 2", "-ERR bit is not an integer or out of range"),
        ("SETBIT k 0 x", "-ERR bit is not an integer or out of range"),
        ("BITFIELD k GET u64 0", no_type),
        ("BITFIELD k GET i65 0", no_type),
        ("BITFIELD k GET 8 0", no_type),
        ("BITFIELD k GET u8 -1", NO_OFFSET),
        ("BITFIELD k GET u8 #x", NO_OFFSET),
        ("BITFIELD k SET u8 0 x", "-ERR value is not an integer or out of range"),
        ("BITFIELD k OVERFLOW NONE", "-ERR Invalid OVERFLOW type specified"),
        ("BITFIELD k SET u8 0", SYNTAX),
        ("BITFIELD k PUT u8 0 1", SYNTAX),
        ("BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ("EXISTS k", ":0"),
    ]);
}

fn the_longest_value_bounds_the_offsets() {
    Running::start().client().check(&[
        ("SETBIT k 4294967296 1", NO_OFFSET),
        ("GETBIT k 4294967295", ":0"),
        ("CONFIG SET proto-max-bulk-len 1mb", "+OK"),
        ("SETBIT k 8388607 1", ":0"),
        ("SETBIT k 8388608 1", NO_OFFSET),
        ("STRLEN k", ":1048576"),
        ("BITCOUNT k", ":1"),
        ("BITPOS k 1", ":8388607"),
        ("BITFIELD k GET u8 8388608", NO_OFFSET),
        // Only the first bit of a field has to lie in the longest value.
        ("BITFIELD k SET u8 8388607 1", "[:128]"),
        ("STRLEN k", ":1048577"),
    ]);
}

fn a_deadline_stays_with_changed_bits() {
    Running::start().client().check(&[
        ("SET k a EXAT 33177117420", "+OK"),
        ("SETBIT k 0 1", ":0"),
        ("BITFIELD k SET u8 0 1", "[:225]"),
        ("EXPIRETIME k", ":33177117420"),
    ]);
}
