//! Places: their coordinates, distances, and searches, as in Redis.

use crate::common::Running;

on_threads! {
    places_are_added_and_told
    areas_are_searched
    places_in_an_area_are_stored
    wrong_words_are_refused
}

const ADD: &str = "GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento";

fn places_are_added_and_told() {
    let pair = "-ERR invalid longitude,latitude pair 200.000000,38.000000";
    Running::start().client().check(&[
        (ADD, ":3"),
        ("GEOADD Sicily XX CH 13.36 38.11 Palermo 1 1 None", ":1"),
        ("GEOADD Sicily NX 1 1 Palermo", ":0"),
        ("GEOADD Sicily 13.361389 38.115556 Palermo", ":0"),
        ("ZSCORE Sicily Palermo", "\"3479099956230698\""),
        ("GEODIST Sicily Palermo Catania", "\"166274.1516\""),
        ("GEODIST Sicily Palermo Catania km", "\"166.2742\""),
        ("GEODIST Sicily Palermo Catania MI", "\"103.3182\""),
        ("GEODIST Sicily Palermo None", "nil"),
        ("GEODIST none a b", "nil"),
        ("GEOHASH Sicily Palermo Catania None", "[\"sqc8b49rny0\", \"sqdtr74hyu0\", nil]"),
        (
            "GEOPOS Sicily Palermo None",
            "[[\"13.36138933897018433\", \"38.11555639549629859\"], nil]",
        ),
        ("GEOPOS none a", "[nil]"),
        ("ZADD odd -1 a", ":1"),
        ("GEOPOS odd a", "[[\"180\", \"85.0511287799999991\"]]"),
        ("GEOADD Sicily 200 38 x", pair),
        ("GEOADD Sicily x 38 x", "-ERR value is not a valid float"),
        ("GEOADD Sicily 1 38 x 1", "-ERR syntax error"),
        ("GEOADD Sicily NX XX 1 1 x", "-ERR syntax error"),
    ]);
}

fn areas_are_searched() {
    Running::start().client().check(&[
        (ADD, ":3"),
        ("GEORADIUS Sicily 15 37 200 km ASC", "[\"Catania\", \"Agrigento\", \"Palermo\"]"),
        ("GEORADIUS Sicily 15 37 200 km DESC COUNT 1", "[\"Palermo\"]"),
        (
            "GEORADIUS_RO Sicily 15 37 200 km WITHDIST WITHHASH ASC COUNT 1",
            "[[\"Catania\", \"56.4413\", :3479447370796909]]",
        ),
        (
            "GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 1 WITHCOORD",
            "[[\"Catania\", [\"15.08726745843887329\", \"37.50266842333162032\"]]]",
        ),
        ("GEORADIUSBYMEMBER Sicily Agrigento 100 km ASC", "[\"Agrigento\", \"Palermo\"]"),
        ("GEORADIUSBYMEMBER_RO Sicily Agrigento 1 m", "[\"Agrigento\"]"),
        ("GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 0 m", "[\"Palermo\"]"),
        ("GEOSEARCH none FROMLONLAT 15 37 BYRADIUS 1 km", "[]"),
        ("GEORADIUSBYMEMBER none x 1 km", "[]"),
    ]);
}

fn places_in_an_area_are_stored() {
    Running::start().client().check(&[
        (ADD, ":3"),
        ("GEORADIUS Sicily 15 37 100 km STORE near", ":1"),
        ("ZRANGE near 0 -1 WITHSCORES", "[\"Catania\", \"3479447370796909\"]"),
        ("GEORADIUSBYMEMBER Sicily Catania 50 km STOREDIST near", ":1"),
        ("ZRANGE near 0 -1 WITHSCORES", "[\"Catania\", \"0\"]"),
        ("GEOSEARCHSTORE near Sicily FROMLONLAT 15 37 BYRADIUS 1 m", ":0"),
        ("EXISTS near", ":0"),
        ("GEOSEARCHSTORE near Sicily FROMLONLAT 15 37 BYRADIUS 400 km ASC COUNT 2", ":2"),
        ("ZRANGE near 0 -1", "[\"Agrigento\", \"Catania\"]"),
        ("GEORADIUS none 15 37 1 km STORE near", ":0"),
        ("EXISTS near", ":0"),
    ]);
}

fn wrong_words_are_refused() {
    let center = "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH";
    let shape = "-ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch";
    let member = "-ERR could not decode requested zset member";
    let store = "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and \
                 WITHCOORD options";
    let unit = "-ERR unsupported unit provided. please use M, KM, FT, MI";
    Running::start().client().check(&[
        (ADD, ":3"),
        ("GEOSEARCH Sicily BYRADIUS 1 km ASC WITHDIST WITHHASH", center),
        ("geosearch Sicily FROMLONLAT 1 1 ASC WITHDIST", shape),
        ("GEOSEARCH Sicily FROMMEMBER None BYRADIUS 1 km", member),
        ("GEOSEARCH Sicily FROMLONLAT 1 1 FROMMEMBER x BYRADIUS 1 km", "-ERR syntax error"),
        ("GEOSEARCH Sicily FROMMEMBER Palermo FROMLONLAT 1 1 BYRADIUS 1 km", "-ERR syntax error"),
        ("GEOSEARCH Sicily FROMMEMBER Catania FROMMEMBER Palermo BYBOX 1 1 km", "[\"Palermo\"]"),
        ("GEORADIUS Sicily 1 1 1 km STORE t WITHDIST", store),
        ("GEORADIUS_RO Sicily 1 1 1 km STORE t", "-ERR syntax error"),
        ("GEORADIUS Sicily 1 1 1 parsec", unit),
        ("GEORADIUS Sicily 1 1 x km", "-ERR need numeric radius"),
        ("GEORADIUS Sicily 1 1 -1 km", "-ERR radius cannot be negative"),
        ("GEORADIUS Sicily 1 1 1 km COUNT 0", "-ERR COUNT must be > 0"),
        ("GEORADIUS Sicily 1 1 1 km ANY", "-ERR the ANY argument requires COUNT argument"),
        (
            "GEOSEARCH Sicily FROMLONLAT 1 1 BYBOX 1 -1 km",
            "-ERR height or width cannot be negative",
        ),
        ("GEODIST Sicily a b km x", "-ERR syntax error"),
    ]);
}
