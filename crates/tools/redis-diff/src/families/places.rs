//! Places.

use super::{Pattern, exact};

/// The patterns of commands on places.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("GEOADD <x:geo> [NX|XX] [CH] {<longitude> <latitude> <element>}..."),
    exact("GEOADD <x:geo> {<longitude> <latitude> <element>}..."),
    exact("GEOPOS <x:geo> <element>..."),
    exact("GEOHASH <x:geo> <element>..."),
    exact("GEODIST <x:geo> <element> <element> [m|km|ft|mi|x]"),
    exact(
        "GEOSEARCH <x:geo> {FROMMEMBER <element>|FROMLONLAT <longitude> <latitude>} {BYRADIUS <distance> km|BYBOX <distance> <distance> km} {ASC|DESC} [WITHCOORD] [WITHDIST] [WITHHASH]",
    ),
    exact(
        "GEOSEARCH <x:geo> FROMLONLAT <longitude> <latitude> BYRADIUS <distance> {km|m|ft|mi|x} ASC COUNT <int> [WITHDIST]",
    ),
    exact(
        "GEOSEARCHSTORE <x:geo> <x:geo> {FROMMEMBER <element>|FROMLONLAT <longitude> <latitude>} {BYRADIUS <distance> km|BYBOX <distance> <distance> km}",
    ),
    exact(
        "GEOSEARCHSTORE <x:far> <x:geo> FROMLONLAT <longitude> <latitude> BYRADIUS <distance> km STOREDIST",
    ),
    exact(
        "GEORADIUS <x:geo> <longitude> <latitude> <distance> km {ASC|DESC} [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT <int>]",
    ),
    exact("GEORADIUSBYMEMBER <x:geo> <element> <distance> km {ASC|DESC} [WITHDIST] [COUNT <int>]"),
    exact("GEORADIUS <x:geo> <longitude> <latitude> <distance> km {STORE|STOREDIST} <x:far>"),
    exact("GEORADIUS_RO <x:geo> <longitude> <latitude> <distance> km ASC"),
    exact("ZRANGE <x:geo> 0 -1 WITHSCORES"),
    exact("ZRANGE <x:far> 0 -1 WITHSCORES"),
    exact("ZREM <x:geo> <element>..."),
    exact("DEL <x:geo>"),
];
