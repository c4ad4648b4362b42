<?php
// phpredis: PHP's sessions in the server, with their locks, a transaction and a scan.
[$program, $scenario, $host, $port] = $argv;

function kill(): void
{
    fwrite(STDOUT, "kill\n");
    fgets(STDIN);
}

function check(bool $holds, string $why): void
{
    if (!$holds) {
        throw new RuntimeException($why);
    }
}

function connect(): Redis
{
    global $host, $port;
    $redis = new Redis();
    $redis->connect($host, (int) $port, 5);
    return $redis;
}

/** Visits a session, as one request does; returns how many visits it had. */
function visit(string $id): int
{
    session_id($id);
    check(session_start(), 'a session does not start');
    $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
    $visits = $_SESSION['visits'];
    check(session_write_close(), 'a session is not written');
    return $visits;
}

function sessions(): string
{
    global $host, $port;
    ini_set('session.save_handler', 'redis');
    ini_set('session.save_path', "tcp://$host:$port?timeout=2");
    ini_set('session.use_cookies', '0');
    ini_set('session.cache_limiter', '');
    ini_set('redis.session.locking_enabled', '1');
    // Sessions refuse to start once something was printed to PHP's output.
    fwrite(STDOUT, 'version phpredis ' . phpversion('redis') . "\n");
    for ($round = 1; $round <= 20; $round++) {
        if ($round === 10) {
            kill();
        }
        for ($n = 0; $n < 20; $n++) {
            $visits = visit("session$n");
            check($visits === $round, "session $n had $visits visits in round $round");
        }
    }
    $redis = connect();
    [$one, $two] = $redis->multi()->incr('n')->hMSet('h', ['a' => 1, 'b' => 2])->exec();
    check($one === 1 && $two === true && $redis->hGetAll('h') === ['a' => '1', 'b' => '2'], 'transaction');
    $redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
    $found = 0;
    $cursor = null;
    while (($keys = $redis->scan($cursor, 'PHPREDIS_SESSION:*')) !== false) {
        $found += count($keys);
    }
    check($found === 20, "scan found $found sessions");
    return '20 sessions of 20 visits';
}

try {
    $how = sessions();
    fwrite(STDOUT, "pass $how\n");
} catch (Throwable $error) {
    fwrite(STDOUT, "$error\nfail " . strtr($error->getMessage(), "\n", ' ') . "\n");
}
