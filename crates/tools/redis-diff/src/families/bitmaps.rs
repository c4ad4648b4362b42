//! Bits of strings.

use super::{Pattern, SECONDS, by, exact};

/// The patterns of commands on bits.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("SETBIT <x:bits> <bit> {0|1}"),
    exact("SETBIT <x:bits> <bit> {0|1}"),
    exact("SETBIT <key> <bit> <int>"),
    exact("GETBIT <x:bits> <bit>"),
    exact("SET <x:bits> <bytes>"),
    exact("SET <x:bits> <value>"),
    exact("GET <x:bits>"),
    exact("BITCOUNT <x:bits>"),
    exact("BITCOUNT <x:bits> <int> <int> [BYTE|BIT]"),
    exact("BITCOUNT <x:bits> <int>"),
    exact("BITPOS <x:bits> {0|1} [<int> [<int> [BYTE|BIT]]]"),
    exact("BITPOS <x:bits> {0|1} <int> <int> [BYTE|BIT]"),
    exact("BITPOS <x:bits> <int>"),
    exact("BITOP {AND|OR|XOR} <x:bits> <x:bits>..."),
    exact("BITOP {AND|OR|XOR} <x:bits> <x:bits> <x:bits>..."),
    exact("BITOP NOT <x:bits> <x:bits>..."),
    exact("BITOP {NOT|AND|NOR} <x:bits> <key>"),
    exact(
        "BITFIELD <x:bits> {GET <field> <field-offset>|SET <field> <field-offset> <int>|INCRBY <field> <field-offset> <int>|OVERFLOW {WRAP|SAT|FAIL|X}}...",
    ),
    exact("BITFIELD <x:bits> [OVERFLOW {WRAP|SAT|FAIL}] INCRBY <field> <field-offset> <int>"),
    exact("BITFIELD <x:bits> [OVERFLOW {WRAP|SAT|FAIL}] SET <field> <field-offset> <int>"),
    exact("BITFIELD <x:bits> GET <field> <field-offset>"),
    exact("BITFIELD <key> SET <field> <field-offset> <int>"),
    exact("BITFIELD_RO <x:bits> {GET <field> <field-offset>}..."),
    exact("BITFIELD_RO <x:bits> {GET <field> <field-offset>|SET <field> <field-offset> <int>}..."),
    exact("STRLEN <x:bits>"),
    exact("OBJECT ENCODING <x:bits>"),
    exact("APPEND <x:bits> <bytes>"),
    exact("EXPIREAT <x:bits> <at>"),
    by(SECONDS, "EXPIRETIME <x:bits>"),
    exact("DEL <x:bits>"),
];
