//! Scripts that mean harm: the server outlives each, serves other clients, and answers with the right value or an error.

use std::io::Read;

use crate::common::{Client, Running, eventually};

on_threads! {
    hostile_scripts_are_answered
    work_without_instructions_is_ended
    a_pattern_is_killed
    random_calls_do_no_harm
    errors_do_not_change_the_sandbox
    replies_are_bounded
    deep_replies_end
    hostile_libraries_are_refused
}

fn eval(client: &mut Client, script: &str) -> String {
    client.call(&["EVAL", script, "1", "k"])
}

/// A server whose scripts may run for a short time only, and take little memory.
fn strict() -> Running {
    let server = Running::start();
    server.client().check(&[
        ("CONFIG SET script-time-limit 300", "+OK"),
        ("CONFIG SET script-memory-limit 16mb", "+OK"),
    ]);
    server
}

/// Scripts, and the beginning of the reply, or a part of the error.
const SCRIPTS: &[(&str, &str)] = &[
    // Numbers beyond the range of C's integers.
    ("return {unpack({1, 2, 3}, -2, 2147483647)}", "too many results to unpack"),
    ("return {unpack({1, 2, 3}, 0, 2147483647)}", "too many results to unpack"),
    ("return {unpack({1, 2, 3}, -2147483648, -2)}", "too many results to unpack"),
    ("return {unpack({1, 2, 3}, -1e300, 1e300)}", "too many results to unpack"),
    ("return {unpack({1, 2, 3}, 2147483647, 2147483647)}", "[]"),
    ("return {unpack({1, 2, 3}, 2)}", "[:2, :3]"),
    ("return {unpack({1, 2, 3}, '1', 2)}", "[:1, :2]"),
    ("return {unpack({1, 2, 3}, 0 / 0)}", "too many results to unpack"),
    ("return #{unpack({}, 1, 7000)}", ":"),
    ("return {unpack({}, 1, 8000)}", "too many results to unpack"),
    ("return {select(-2147483648, 1)}", "index out of range"),
    ("return {('abc'):byte(-2147483648, 2147483647)}", "[:97, :98, :99]"),
    ("return {('x'):rep(100000):byte(1, -1)}", "string slice too long"),
    ("return ('abc'):sub(-2147483648, 2147483647)", "\"abc\""),
    ("return ('x'):rep(-5)", "\"\""),
    ("return ('x'):rep(1e300)", "\"\""),
    ("return #(''):rep(2147483647)", ":0"),
    ("return string.char(-1)", "invalid value"),
    ("return ('%99.99f'):format(1e308)", "\"1"),
    ("return ('%100d'):format(1)", "width or precision too long"),
    ("return ('%'):format(1)", "invalid option"),
    (
        "local s = string.format('%d', 'x') return s",
        "user_script:1: bad argument #2 to 'format' (number expected",
    ),
    (
        "local s = string.format('%s') return s",
        "user_script:1: bad argument #2 to 'format' (no value)",
    ),
    (
        "local n = tonumber() return n",
        "user_script:1: bad argument #1 to 'tonumber' (value expected)",
    ),
    (
        "local n = tonumber('z', 99) return n",
        "user_script:1: bad argument #2 to 'tonumber' (base out of range)",
    ),
    (
        "local n = tonumber({}, 16) return n",
        "user_script:1: bad argument #1 to 'tonumber' (string expected",
    ),
    (
        "return {tonumber('ff', 16), tonumber('10', nil), tonumber('11', '2'), tonumber(12, 3)}",
        "[:255, :10, :3, :5]",
    ),
    ("return {tostring(tonumber(nil)), tostring(tonumber('8', 8))}", "[\"nil\", \"nil\"]"),
    ("local t = {1, 2} table.insert(t, -5, 3) return t[-5]", ":3"),
    ("local t = {1, 2} table.insert(t, 2147483647, 3) return #t", ":2"),
    ("return table.concat({1, 2}, ',', -2147483648, 2147483647)", "invalid value (nil)"),
    ("local t = {1, 2, 3} return {table.remove(t, 1), table.remove(t, -2147483648), #t}", "[:1]"),
    ("return table.getn({1, 2})", ":2"),
    ("table.insert(redis, 'mine') return redis[1]", "readonly table"),
    ("table.insert(_G, 1, 'mine') return _G[1]", "readonly table"),
    ("return table.remove(string)", "readonly table"),
    ("table.sort(cjson)", "readonly table"),
    ("return struct.unpack('b', 'x', 0 / 0)", "offset must be 1"),
    ("return loadstring('return a' .. (' or a'):rep(1e5)) == nil", ":1"),
    ("return loadstring('return a' .. (' and a'):rep(1e5)) == nil", ":1"),
    ("return loadstring('return 1' .. (' --for'):rep(1e5))()", ":1"),
    (
        "local co = coroutine.create(function() return 7 end) local _, n = coroutine.resume(co) return n",
        ":7",
    ),
    ("return struct.unpack('B', 'abc', 1e300)", "too short"),
    ("return struct.pack('c2147483647', 'x')", "too short"),
    ("return struct.size('c2147483647c2147483647')", "too large"),
    ("return struct.pack('!1073741824i', 1)", "\""),
    ("return cmsgpack.unpack('\\223\\255\\255\\255\\255')", "Missing bytes"),
    ("return cmsgpack.unpack_limit('\\1', -1)", "Invalid request"),
    ("return cjson.decode('[' .. ('9'):rep(1000) .. ']')[1]", ":-"),
    ("cjson.encode_sparse_array(true, 2147483647, 2147483647) return 1", ":1"),
    ("return bit.lshift(1, 2147483647) + bit.tohex(1, -2147483648)", ":"),
    ("return math.random(2147483647, -2147483648)", "interval is empty"),
    ("return math.ldexp(1, 1e300)", ":"),
    // The C stack.
    ("return ('a'):rep(300000):match((('a?'):rep(300000)))", "pattern too complex"),
    ("return #('a'):rep(100000):match((('a?'):rep(100000)))", ":100000"),
    ("return ('x'):rep(100):match(('('):rep(100))", "too many captures"),
    ("return ('a'):match(('()'):rep(40))", "too many captures"),
    ("local function f() return f() + 1 end return f()", "stack overflow"),
    ("local function f() return pcall(f) end return f()", ""),
    ("local function f() local ok, why = pcall(f) return why end return f()", ""),
    ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "loop in gettable"),
    (
        "local t t = setmetatable({}, {__index = function(_, k) return t[k .. 'x'] end}) return t.x",
        "overflow",
    ),
    (
        "local t t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. t",
        "overflow",
    ),
    (
        "local t t = setmetatable({}, {__tostring = function(a) return tostring(a) end}) return tostring(t)",
        "overflow",
    ),
    ("local function f(s) return (s:gsub('.', f)) end return f('abc')", ""),
    ("local function f() return coroutine.wrap(f)() end return f()", "overflow"),
    ("local function f() return coroutine.resume(coroutine.create(f)) end return f()", ""),
    ("local function f() xpcall(error, f) end f() return 1", ":1"),
    ("return xpcall(error, function() error('again') end)", "nil"),
    ("return {xpcall(function() error({}) end, error)}", "["),
    ("return loadstring('return ' .. ('('):rep(100000) .. '1' .. (')'):rep(100000)) == nil", ":1"),
    ("return loadstring('return ' .. ('{'):rep(100000)) == nil", ":1"),
    ("return loadstring('x = ' .. ('a .. '):rep(100000) .. 'a') == nil", ":1"),
    ("local t = {} for n = 1, 5000 do t = {map = {[t] = t}} end return t", ""),
    ("local t = {} t.map = {[t] = t} return t", ""),
    ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
    ("local t = {} t[1] = t return #cmsgpack.pack(t)", ":"),
    (
        "cjson.encode_max_depth(2147483647) local t = {} t[1] = t return cjson.encode(t)",
        "excessive nesting",
    ),
    ("cjson.decode_max_depth(2147483647) return cjson.decode(('['):rep(1e6))", "too many nested"),
    ("return cjson.decode(('{\"a\":'):rep(1000))", "Expected"),
    ("return cmsgpack.unpack(('\\145'):rep(1e6))", "Bad data format"),
    ("return redis.call('SET', KEYS[1], unpack({}, 1, 7980))", "must be strings or integers"),
    (
        "local t = {} for n = 1, 7900 do t[n] = 'x' .. n end return redis.call('DEL', KEYS[1], unpack(t))",
        "",
    ),
    (
        "local t = {} for n = 1, 7900 do t[n] = 'x' .. n end return #cmsgpack.pack(unpack(t))",
        "Too many arguments",
    ),
    ("local t = {} for n = 1, 7900 do t[n] = n end return math.max(unpack(t))", ":7900"),
    ("local t = {} for n = 1, 7900 do t[n] = n end return bit.bor(unpack(t))", ":8191"),
    // The parser, and compiled code.
    ("return loadstring(string.dump(function() end)) == nil", ":1"),
    ("return load(function() return nil end)()", "nil"),
    ("return load(function() return {} end) == nil", ":1"),
    ("return loadstring('return 1', ('name\\0'):rep(1000))()", ":1"),
    ("return loadstring('return 1 --\\0' .. ('x'):rep(100000))()", ":1"),
    (
        "for n = 1, 200 do loadstring('local a = ' .. n .. ' return a', 'chunk' .. n .. '\\0x') collectgarbage() end return 1",
        ":1",
    ),
    ("return loadstring('--[' .. ('='):rep(1e6) .. '[' .. ('='):rep(1e6)) == nil", ":1"),
    ("return loadstring('if x then ' .. ('elseif x then '):rep(200000) .. 'end') == nil", ":1"),
    (
        "return loadstring('while x do ' .. ('if x then break end '):rep(100000) .. 'end') == nil",
        ":1",
    ),
    ("return loadstring(('local a '):rep(300)) == nil", ":1"),
    // Other metatables, environments, and collectors.
    ("getmetatable('').__index = function() end return 1", "readonly"),
    ("rawset(getmetatable('x'), '__index', {}) return 1", "readonly"),
    ("string.rep = nil return 1", "readonly"),
    ("getmetatable(_G).__index = {} return 1", "readonly"),
    ("setmetatable(_G, nil) return 1", "readonly"),
    ("return setmetatable('', {})", "bad argument #1"),
    ("return newproxy(true)", "nonexistent global variable 'newproxy'"),
    ("return setfenv(1, {})", "nonexistent global variable 'setfenv'"),
    ("return getfenv(0)", "nonexistent global variable 'getfenv'"),
    ("return debug.getinfo(1)", "nonexistent global variable 'debug'"),
    (
        "local t = setmetatable({}, {__gc = function() error('x') end}) t = nil collectgarbage() return 1",
        ":1",
    ),
    (
        "collectgarbage('setstepmul', -1) collectgarbage('setpause', -1) for n = 1, 1e4 do local t = {n} end return 1",
        ":1",
    ),
    ("collectgarbage('step', 2147483647) return 1", ":1"),
    (
        "local t = setmetatable({}, {__mode = 'kv'}) for n = 1, 1000 do t[{}] = {} end collectgarbage() return next(t) == nil",
        ":1",
    ),
    // Errors of other kinds.
    ("error()", "-ERR"),
    ("error(nil)", "-ERR"),
    ("error(setmetatable({}, {__tostring = error}))", "-ERR"),
    ("error({err = {}})", "-ERR"),
    ("error(coroutine.create(error))", "-ERR"),
    ("error(redis)", "-ERR"),
    ("error(_G)", "-ERR"),
    ("return coroutine.yield()", "-ERR"),
    (
        "return {coroutine.resume(coroutine.create(function() return redis.call('NOSUCH') end))}",
        "[",
    ),
    ("coroutine.wrap(function() redis.call('NOSUCH') end)()", "-ERR"),
    (
        "local co co = coroutine.create(function() return coroutine.resume(co) end) return {coroutine.resume(co)}",
        "[:1, nil, ",
    ),
    ("return ('x'):gsub('x', function() redis.call('NOSUCH') end)", "-ERR Unknown Redis command"),
    ("return ('x'):gsub('x', function() coroutine.yield() end)", "-ERR"),
    ("return ('x'):gsub('x', function() return {} end)", "invalid replacement value"),
    ("return ('x'):gsub('x', '%9')", "invalid capture index"),
    ("return ('x'):gsub('(x', '%1')", "unfinished capture"),
    // Orders that are none.
    (
        "local t = {} for n = 1, 100 do t[n] = n end table.sort(t, function() return true end) return #t",
        "",
    ),
    (
        "local t = {} for n = 1, 2000 do t[n] = n end table.sort(t, function() return true end) return #t",
        "invalid order function",
    ),
    ("local t = {} for n = 1, 2000 do t[n] = n % 7 end table.sort(t, rawequal) return #t", ""),
    ("local t = {1, 'a', {}} table.sort(t) return 1", "attempt to compare"),
    (
        "local t = {} for n = 1, 3000 do t[n] = (n * 7919) % 3001 end table.sort(t) for n = 1, 3000 do assert(t[n] == n) end return 1",
        ":1",
    ),
    (
        "local t = {} for n = 1, 3000 do t[n] = n % 10 end table.sort(t, function(a, b) return a > b end) return {t[1], t[3000]}",
        "[:9, :0]",
    ),
    // Memory.
    (
        "local s = ('x'):rep(1e6) local t = {} for n = 1, 5000 do t[n] = s end return redis.call('SET', KEYS[1], unpack(t))",
        "not enough memory",
    ),
    (
        "local s = ('x'):rep(1e6) local t = {} for n = 1, 5000 do t[n] = s end redis.log(redis.LOG_WARNING, unpack(t)) return 1",
        ":1",
    ),
    (
        "local s = ('x'):rep(1e6) local t = {} for n = 1, 5000 do t[n] = s end return cjson.encode(t)",
        "not enough memory",
    ),
    (
        "local s = ('x'):rep(1e6) local t = {} for n = 1, 5000 do t[n] = s end return cmsgpack.pack(t)",
        "not enough memory",
    ),
    (
        "local s = ('x'):rep(1e6) local t = {} for n = 1, 3000 do t[n] = s end return struct.pack(('s'):rep(3000), unpack(t))",
        "not enough memory",
    ),
    (
        "local s = ('x'):rep(1e6) local t = {} for n = 1, 5000 do t[n] = s end return table.concat(t)",
        "not enough memory",
    ),
    ("local s = ('x'):rep(1e4) return (s:gsub('x', s))", "not enough memory"),
    ("local t = {1} for n = 1, 60 do t = {t, t} end return cjson.encode(t)", ""),
    (
        "local t = {1} for n = 1, 15 do t = {t, t, t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)",
        "",
    ),
    ("local s = 'x' while true do s = s .. s end", "not enough memory"),
    ("local t = {} while true do t = {t} end", "not enough memory"),
    (
        "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
        "not enough memory",
    ),
    ("local t = {} while true do t[#t + 1] = ('x'):gmatch('x') end", "not enough memory"),
    ("local t = {} while true do t[#t + 1] = cjson.new() end", "not enough memory"),
    ("return pcall(function() local s = 'x' while true do s = s .. s end end)", "nil"),
];

fn hostile_scripts_are_answered() {
    let server = strict();
    let (mut client, mut other) = (server.client(), server.client());
    for (script, expected) in SCRIPTS {
        let reply = eval(&mut client, script);
        let is_error = reply.starts_with('-');
        // A slow machine may end any of them by time.
        let is_ended = reply.contains("script-time-limit");
        let is_expected =
            reply.starts_with(expected) || is_error && (is_ended || reply.contains(expected));
        let shown: String = reply.chars().take(300).collect();
        assert!(is_expected, "{script}: {shown}");
        assert_eq!(other.ask("PING"), "+PONG", "{script}");
        assert_eq!(eval(&mut client, "return #redis.pcall('KEYS', 'nosuch')"), ":0", "{script}");
    }
}

/// Scripts that work for ever, or nearly so, in few instructions.
const ENDLESS: &[&str] = &[
    "return ('a'):rep(30000):find(('.-'):rep(12) .. 'b')",
    "return ('a'):rep(30000):match(('.-'):rep(12) .. 'b')",
    "return ('a'):rep(30000):gsub(('.-'):rep(12) .. 'b', '')",
    "return ('a'):rep(30000):gsub(('.-'):rep(12) .. 'b', error)",
    "for _ in ('a'):rep(30000):gmatch(('.-'):rep(12) .. 'b') do end",
    "return ('a'):rep(60):match(('a?'):rep(60) .. ('a'):rep(60) .. 'b')",
    "return ('a'):rep(3000):match(('(a*)'):rep(20) .. '%1%2%3b')",
    "return ('('):rep(300000):find('%b()')",
    "return ('a'):rep(1e6):find(('a'):rep(5e5) .. 'b', 1, true)",
    "return ('a'):rep(1e6):find('[' .. ('b'):rep(1e6) .. ']')",
    "local t = {} for n = 1, 1e5 do t[n] = n end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    "return table.insert({1}, -2147483648, 1)",
    "local s = ('x'):rep(3e6) while true do s:reverse() s:upper() s:lower() s:rep(2) end",
    "local t = {} for n = 1, 1e5 do t[n] = n end while true do table.foreach(t, rawequal) table.foreachi(t, rawequal) end",
    "while true do collectgarbage() end",
    "while true do pcall(string.find, ('a'):rep(30000), ('.-'):rep(12) .. 'b') end",
    "while true do pcall(cjson.encode, {1, 2, {3}}) end",
    "while true do redis.pcall('NOSUCH') end",
    "local t = {1} for n = 1, 60 do t = {t, t} end while true do pcall(cjson.encode, t) end",
    "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
    "xpcall(function() while true do end end, function() while true do end end) while true do end",
    "local function f(n) if n > 0 then for i = 1, 50 do coroutine.wrap(f)(n - 1) end end end f(20)",
    "local s = ('x'):rep(1e7) while true do redis.sha1hex(s) end",
    "local s = ('x'):rep(1e6) while true do string.format('%q', s) end",
    "local s = (' '):rep(1e7) while true do tonumber(s) end",
    "local s = ('1'):rep(1e7) while true do tonumber(s, 8) end",
];

fn work_without_instructions_is_ended() {
    let server = strict();
    let (mut client, mut other) = (server.client(), server.client());
    for script in ENDLESS {
        let reply = eval(&mut client, script);
        assert!(reply.contains("script-time-limit"), "{script}: {reply}");
        assert_eq!(other.ask("PING"), "+PONG", "{script}");
    }
    // The end is that of one script.
    assert_eq!(eval(&mut client, "return ('abc'):find('b')"), ":2");
}

fn a_pattern_is_killed() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    other.check(&[("CONFIG SET busy-reply-threshold 20", "+OK")]);
    client.send_words(&["EVAL", ENDLESS[0], "0"]);
    eventually("the server is busy", || other.ask("PING").starts_with("-BUSY"));
    other.check(&[("SCRIPT KILL", "+OK")]);
    assert!(client.reply().starts_with("-ERR Script killed by user"));
    eventually("the server is idle", || other.ask("PING") == "+PONG");
}

/// Calls functions of all libraries with values that they do not expect, as many as the time allows.
const RANDOM_CALLS: &str = "
    local functions = {}
    for _, library in ipairs({string, table, math, bit, cjson, cmsgpack, struct, coroutine, redis}) do
      for name, f in pairs(library) do
        if type(f) == 'function' and name ~= 'log' and name ~= 'acl_check_cmd' then functions[#functions + 1] = f end
      end
    end
    for _, f in ipairs({assert, collectgarbage, gcinfo, getmetatable, ipairs, load, loadstring, next, pairs, pcall,
        rawequal, rawget, rawset, select, setmetatable, tonumber, tostring, type, unpack, xpcall}) do
      functions[#functions + 1] = f
    end
    local own = {1, 2, 3}
    own.own = own
    own[4] = own
    math.randomseed(tonumber(ARGV[1]))
    local function value()
      local values = {
        false, true, -1, 0, 1, 2, 0.5, 0 / 0, 1 / 0, -1 / 0, 2147483647, -2147483648, 4294967296, 2^53, 1e300, '', 'a',
        '%', '[a', '%b()', '(.-)', '^a*', '%f[a]', 'a\\0b', ('ab'):rep(500), '>I2', 'c0', 's', '{\"a\":[1]}', '\\145',
        '1e5', '0x10', {}, {1, 2, 3}, {a = {}}, {'x', 'y'}, own, setmetatable({}, {__index = error, __call = error}),
        cjson.null, error, pcall, coroutine.create(function() end), function(...) return ... end, string, 'GET',
      }
      return values[math.random(#values + 1)]
    end
    for round = 1, 3000 do
      local f = functions[math.random(#functions)]
      pcall(f, unpack({value(), value(), value(), value()}, 1, math.random(0, 4)))
    end
    return 'done'";

fn random_calls_do_no_harm() {
    let server = strict();
    let mut client = server.client();
    for seed in 0..16 {
        let reply = client.call(&["EVAL", RANDOM_CALLS, "0", &seed.to_string()]);
        assert!(reply == "\"done\"" || reply.starts_with("-ERR"), "{seed}: {reply}");
        assert_eq!(server.client().ask("PING"), "+PONG", "{seed}");
    }
}

fn errors_do_not_change_the_sandbox() {
    let server = strict();
    let mut client = server.client();
    for script in ["error(redis)", "error(string)", "error(_G)", "error(getmetatable(''))"] {
        assert!(eval(&mut client, script).starts_with("-ERR"), "{script}");
    }
    let script = "return {rawget(redis, 'line') == nil, rawget(string, 'line') == nil, rawget(_G, 'source') == nil}";
    assert_eq!(eval(&mut client, script), "[:1, :1, :1]");
}

fn replies_are_bounded() {
    let server = strict();
    // Each is more than the client may keep waiting: it is dropped, and not the server.
    for script in [
        "local t = {1} for n = 1, 60 do t = {t, t} end return t",
        "local t = {1} for n = 1, 60 do t = {map = {t, t}} end return t",
    ] {
        let mut client = server.client();
        let set = ["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"];
        assert_eq!(client.call(&set), "+OK");
        client.send_words(&["EVAL", script, "0"]);
        eventually("the server goes on", || server.client().ask("PING") == "+PONG");
    }
}

fn deep_replies_end() {
    let server = strict();
    for script in
        ["local t = {} for n = 1, 5000 do t = {t} end return t", "local t = {} t[1] = t return t"]
    {
        let mut client = server.client();
        client.send_words(&["EVAL", script, "0"]);
        let mut reply = Vec::new();
        while !reply.ends_with(b"-ERR reached lua stack limit\r\n") {
            let mut bytes = [0; 4096];
            let len = client.socket.read(&mut bytes).unwrap();
            assert!(len > 0, "{script}: the reply has an end");
            reply.extend_from_slice(&bytes[..len]);
        }
        assert!(reply.starts_with(b"*1\r\n*1\r\n"), "{script}");
        assert_eq!(server.client().ask("PING"), "+PONG", "{script}");
    }
}

fn hostile_libraries_are_refused() {
    let server = strict();
    let mut client = server.client();
    for (code, expected) in [
        ("while true do end", "FUNCTION LOAD timeout"),
        ("redis.register_function('f', redis)", "must be a function"),
        ("redis.register_function(redis, redis)", "must be a string"),
        ("local function f() return f() + 1 end f()", "stack overflow"),
        ("error(redis)", "-ERR"),
        ("return math.random()", "nonexistent global variable 'math'"),
        ("return getmetatable(_G)", "nonexistent global variable 'getmetatable'"),
        ("redis.register_function{}", "must get a function name"),
    ] {
        let library = format!("#!lua name=l\n{code}");
        let reply = client.call(&["FUNCTION", "LOAD", &library]);
        assert!(reply.starts_with('-') && reply.contains(expected), "{code}: {reply}");
    }
}
