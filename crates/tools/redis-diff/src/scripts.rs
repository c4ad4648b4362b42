//! Scripts of Lua, of a line each. Each has one key, and two words more.

use fastrand::Rng;

/// A script.
pub(crate) fn script(random: &mut Rng) -> Vec<u8> {
    let script = *random.choice(SCRIPTS.iter()).expect("there are scripts");
    // The same script with other limits of its numbers, and now and then one that is none.
    match random.u8(..40) {
        0 => script.replacen(')', "", 1),
        1 => script.replacen("ARGV[1]", "ARGV[3]", 1),
        2 => script.replacen("redis.call", "redis.pcall", 1),
        _ => script.to_owned(),
    }
    .into_bytes()
}

/// A text of JSON, or nearly one.
pub(crate) fn json(random: &mut Rng, depth: usize) -> Vec<u8> {
    let text = match random.u8(..if depth == 0 { 7 } else { 10 }) {
        0 => (*random.choice(["null", "true", "false", "nul", "tru"].iter()).unwrap_or(&""))
            .to_owned(),
        1 => random.i32(-1000..1000).to_string(),
        2 => random.choice(NUMBERS.iter()).map_or("", |text| *text).to_owned(),
        3 => format!("{}", f64::from(random.i32(-100_000..100_000)) / 128.0),
        4 => random.choice(TEXTS.iter()).map_or("", |text| *text).to_owned(),
        5 => "\"abc\"".to_owned(),
        6 => format!("\"{}\"", random.u16(..)),
        7 => {
            let items: Vec<_> =
                (0..random.usize(..4)).map(|_| json_text(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        8 => {
            // Of several fields, the order is that of Lua's tables.
            let fields: Vec<_> = (0..random.usize(..4))
                .map(|_| {
                    format!(
                        "\"{}\": {}",
                        ["a", "b", "", "1", "key"][random.usize(..5)],
                        json_text(random, depth - 1)
                    )
                })
                .collect();
            format!("{{{}}}", fields.join(" , "))
        }
        _ => format!("[{}", json_text(random, depth - 1)),
    };
    text.into_bytes()
}

fn json_text(random: &mut Rng, depth: usize) -> String {
    String::from_utf8(json(random, depth)).expect("it is made of texts")
}

/// Numbers as JSON, and others nearly.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1e3",
    "1E-2",
    "1e400",
    "-1e-400",
    "0x10",
    "01",
    "1.",
    ".5",
    "123456789012345678",
    "1e15",
    "99999999999999",
    "100000000000000",
    "0.1",
    "3.14159265358979",
    "inf",
    "NaN",
    "nan",
    "-",
];

/// Texts as JSON, and others nearly.
const TEXTS: &[&str] = &[
    r#""""#,
    r#""\u00e9""#,
    r#""\ud83d\ude00""#,
    r#""\ud83d""#,
    r#""\u0000a""#,
    r#""\n\t\"\\\/""#,
    r#""\x""#,
    r#""a"#,
    "\"\u{1}\"",
    "\"\u{7f}é\"",
    r#""\u12""#,
];

const SCRIPTS: &[&str] = &[
    // Conversions of replies, both ways.
    "return redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call('LRANGE', KEYS[1], 0, -1)",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return redis.call('INCRBY', KEYS[1], ARGV[1])",
    "return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])",
    "return redis.call('SADD', KEYS[1], ARGV[1], ARGV[2])",
    "return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])",
    "return redis.call('ZSCORE', KEYS[1], ARGV[1])",
    "return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])",
    "return redis.pcall('LPUSH', KEYS[1], ARGV[1]).err",
    "return redis.call('NOSUCH', KEYS[1])",
    "return redis.pcall('NOSUCH', KEYS[1])",
    "return redis.pcall('GET')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('SET', KEYS[1], {})",
    "return redis.call('SET', KEYS[1], true)",
    "return redis.call('SET', KEYS[1], 1.5)",
    "return redis.call('SET', KEYS[1], 1e20)",
    "return redis.call('SET', KEYS[1], tonumber(ARGV[1]) or 0)",
    "return {redis.call('GET', KEYS[1]), false, 1, 2.9, -2.9, 'x', {1, {2}}, nil, 5}",
    "return {1, 2, nil, 4}",
    "return tonumber(ARGV[1])",
    "return tostring(tonumber(ARGV[1]))",
    "return tonumber(ARGV[1], 16)",
    "return {ok = ARGV[1]}",
    "return {err = ARGV[1]}",
    "return {err = 'MY ' .. ARGV[1], ok = 'x'}",
    "return redis.status_reply(ARGV[1])",
    "return redis.error_reply(ARGV[1])",
    "return redis.error_reply('-MY ' .. ARGV[1])",
    "return {double = tonumber(ARGV[1])}",
    "return {map = {a = 1}}",
    "return {set = {a = true}}",
    "return {big_number = ARGV[1]}",
    "return {verbatim_string = {string = ARGV[1], format = 'txt'}}",
    "redis.setresp(3); return {double = tonumber(ARGV[1]) or 0.5}",
    "redis.setresp(3); return {map = {[ARGV[1]] = ARGV[2]}}",
    "redis.setresp(3); return {set = {[ARGV[1]] = true}}",
    "redis.setresp(3); return {big_number = ARGV[1]}",
    "redis.setresp(3); return {verbatim_string = {string = ARGV[1], format = 'txt'}}",
    "redis.setresp(3); return redis.call('ZSCORE', KEYS[1], ARGV[1])",
    "redis.setresp(3); local r = redis.call('HGETALL', KEYS[1]); local n = 0; for _ in pairs(r.map) do n = n + 1 end; return n",
    "redis.setresp(3); local r = redis.call('ZSCORE', KEYS[1], ARGV[1]); return type(r)",
    "redis.setresp(3); return redis.call('GET', KEYS[1])",
    "redis.setresp(tonumber(ARGV[1]))",
    "return #KEYS + #ARGV",
    "return {KEYS, ARGV}",
    "return nil",
    "return true",
    "return false",
    "return function() end",
    "return ARGV[1] .. 5",
    "return ARGV[1] + 5",
    "return ARGV[1] < ARGV[2]",
    "return ARGV[1] < 5",
    "local t = {}; t[ARGV[1]] = 1; return t",
    "error(ARGV[1])",
    "error({err = tostring(ARGV[1])})",
    "error({err = 'MY ' .. tostring(ARGV[1])}, 0)",
    "error()",
    "local ok, e = pcall(function() return redis.call('INCR', KEYS[1]) end); return ok and 1 or e",
    "local ok, e = pcall(redis.call, 'INCR', KEYS[1]); if ok then return e end; return type(e) == 'table' and e.err or e",
    "local ok, e = pcall(error, ARGV[1]); return e",
    "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[1])",
    "undefined = 1",
    "return undefined",
    "return redis.sha1hex(ARGV[1])",
    "return redis.sha1hex()",
    "return redis.log(redis.LOG_DEBUG, ARGV[1])",
    "return redis.acl_check_cmd('SET', KEYS[1], ARGV[1])",
    "return {redis.REDIS_VERSION ~= nil, redis.LOG_WARNING, redis.REPL_ALL}",
    "return redis.replicate_commands()",
    "redis.set_repl(redis.REPL_NONE)",
    "#!lua\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 1)",
    "#!lua flags=allow-oom,no-cluster\nreturn redis.call('SET', KEYS[1], 1)",
    "#!lua flags=x\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!x\nreturn 1",
    // Lua's own functions.
    "return string.format('%d|%5.2f|%g', tonumber(ARGV[1]) or 7, tonumber(ARGV[2]) or 0.1, tonumber(ARGV[1]) or 1)",
    "return string.format('%x|%o|%c|%e', tonumber(ARGV[1]) or 255, 8, 65, tonumber(ARGV[1]) or 1)",
    "return string.format('%q', ARGV[1])",
    "return string.format('%-10s|%.3s|%10.2s', ARGV[1], ARGV[2], ARGV[1])",
    "return string.format('%s %s', ARGV[1])",
    "return string.format('%i|%u|%+d|% d|%05d', 1, tonumber(ARGV[1]) or 1, 2, 3, 4)",
    "return {string.find(ARGV[1], ARGV[2])}",
    "return {string.find(ARGV[1], ARGV[2], 1, true)}",
    "return {string.match(ARGV[1], '(%d+)(.-)$')}",
    "return {string.gsub(ARGV[1], '%w', '%0%0')}",
    "return {string.gsub(ARGV[1], '(%a)(%d?)', '%2%1', 2)}",
    "return {string.gsub(ARGV[1], '.', {a = 'x', b = false})}",
    "return {string.gsub(ARGV[1], '%s*', function(s) return #s end)}",
    "local t = {}; for a in string.gmatch(ARGV[1], '[^,.]+') do t[#t + 1] = a end; return t",
    "return {string.byte(ARGV[1], 1, -1)}",
    "return string.char(tonumber(ARGV[1]) or 65)",
    "return string.rep(ARGV[1], 3)",
    "return {string.sub(ARGV[1], 2, -2), string.upper(ARGV[1]), string.reverse(ARGV[1]), #ARGV[1]}",
    "return string.sub(ARGV[1], tonumber(ARGV[2]) or 1)",
    "return {math.floor(tonumber(ARGV[1]) or 1.5), math.ceil(tonumber(ARGV[1]) or 1.5), math.abs(-3), math.max(1, tonumber(ARGV[1]) or 0)}",
    "return {math.fmod(7, 3), 7 % -3, -7 % 3, math.modf(3.7), 2 ^ 10}",
    "math.randomseed(tonumber(ARGV[1]) or 1); return math.random(1000)",
    "math.randomseed(7); return math.random(tonumber(ARGV[1]) or 3)",
    "return tostring(1 / 0) .. tostring(-1 / 0) .. tostring(1e15) .. tostring(1e16) .. tostring(0.1)",
    "local t = {3, 1, 2}; table.sort(t); table.insert(t, 1, 9); return {table.concat(t, ','), table.remove(t), #t}",
    "local t = {ARGV[1], ARGV[2], 'm'}; table.sort(t, function(a, b) return a > b end); return t",
    "return {unpack({1, 2, 3}, 2)}",
    "return {select('#', ARGV[1], nil), select(2, ARGV[1], ARGV[2])}",
    "return {type(nil), type(1), type(''), type({}), type(print), type(redis)}",
    "return {next({}), rawequal(ARGV[1], ARGV[2]), rawget({a = 1}, 'a')}",
    "local t = setmetatable({}, {__index = function(_, k) return k .. '!' end}); return t[ARGV[1]]",
    "local f = loadstring('return ' .. ARGV[1]); return f and f() or 'none'",
    "return loadstring(ARGV[1]) == nil",
    "return {os.clock() >= 0, type(os.time)}",
    "return print",
    "return {pairs == nil, require == nil, dofile == nil, loadfile == nil, io == nil, debug == nil, newproxy == nil}",
    "local co = coroutine.wrap(function(a) local b = coroutine.yield(a); return b end); return {co(1), co(2)}",
    "return tostring(ARGV[1]) == ARGV[1]",
    // The libraries.
    "return cjson.encode(cjson.decode(ARGV[1]))",
    "local ok, e = pcall(cjson.decode, ARGV[1]); return ok and 'fine' or e",
    "return cjson.encode({ARGV[1], 1, 1.5, true, cjson.null})",
    "return cjson.encode({a = ARGV[1]})",
    "return cjson.encode({[1] = 1, [3] = 3})",
    "return cjson.encode({[1] = 1, [100] = 3})",
    "return cjson.encode(tonumber(ARGV[1]))",
    "return cjson.encode(1 / 0)",
    "local t = cjson.decode(ARGV[1]); return type(t) == 'table' and #t or t",
    "return cmsgpack.pack(ARGV[1])",
    "return cmsgpack.pack(tonumber(ARGV[1]))",
    "return cmsgpack.pack({ARGV[1], 1, -1, 300, -300, 70000, 1.5, true, false}, ARGV[2])",
    "return cmsgpack.pack({a = tonumber(ARGV[1])})",
    "return {cmsgpack.unpack(ARGV[1])}",
    "return {cmsgpack.unpack(cmsgpack.pack(ARGV[1], tonumber(ARGV[2]), {1, 2}))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2), 1)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 0)}",
    "return struct.pack('>i4<I2bBhl', 1, 2, 3, 4, 5, tonumber(ARGV[1]) or 6)",
    "return struct.pack('s', ARGV[1])",
    "return struct.pack('c0', ARGV[1])",
    "return struct.pack('fd', tonumber(ARGV[1]) or 0.5, tonumber(ARGV[2]) or 1.5)",
    "return {struct.unpack('>i2', ARGV[1])}",
    "return {struct.unpack('Bc0', ARGV[1])}",
    "return {struct.size('!8 i1 l'), struct.size('>bhij')}",
    "return bit.band(tonumber(ARGV[1]) or 0, 255)",
    "return {bit.bor(1, 2), bit.bxor(7, tonumber(ARGV[1]) or 0), bit.bnot(tonumber(ARGV[1]) or 0), bit.tobit(tonumber(ARGV[1]) or 0)}",
    "return {bit.lshift(1, tonumber(ARGV[1]) or 3), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.rol(1, 31), bit.ror(1, 1), bit.bswap(1)}",
    "return {bit.tohex(tonumber(ARGV[1]) or 0), bit.tohex(-1, 4), bit.tohex(-1, -4)}",
];
