#!/bin/bash
# Makes the files of this folder anew; README.md says by which servers. Arguments: the folder to write to, a free port,
# and the paths of the servers: Redis 6.2, Redis 7.0, Valkey 8.1.
set -eu
out=$1 port=$2
work=$(mktemp -d)

cli() { redis-cli -p "$port" "$@" > /dev/null; }

# start SERVER [OPTION...]
start() {
    rm -rf "$work/data" && mkdir "$work/data"
    "$@" --port "$port" --dir "$work/data" --save "" --daemonize no > "$work/log" 2>&1 &
    server=$!
    until redis-cli -p "$port" ping > /dev/null 2>&1; do sleep 0.1; done
}
stop() { redis-cli -p "$port" shutdown nosave > /dev/null 2>&1 || true; wait "$server" || true; }

fill() {
    cli set string:plain hello
    cli set string:empty ""
    cli set string:int8 -5
    cli set string:int16 1000
    cli set string:int32 -100000
    cli set string:int64 12345678901
    cli set string:like-int 007
    cli set string:compressed "$(printf 'abc%.0s' {1..100})"
    printf 'a\0\r\n\xff' | cli -x set string:bytes
    cli set string:expires soon PXAT 4102444800000
    cli rpush list:small a 1 -2 3000 70000 -5000000 5000000000000 "" "$(printf 'x%.0s' {1..300})"
    cli rpush list:large $(printf 'element:%d ' {1..1500})
    cli rpush list:long "$(printf 'long%.0s' {1..5000})" short
    cli sadd set:int16 3 1 2 -300
    cli sadd set:int32 3 1 70000
    cli sadd set:int64 3 1 -5000000000
    cli sadd set:small a bb 7 ccc
    cli sadd set:large $(printf 'member:%d ' {1..200})
    cli hset hash:small name apple count 7 empty ""
    cli hset hash:long text "$(printf 'text%.0s' {1..50})"
    cli hset hash:large $(printf 'field:%d %d ' $(for n in {1..200}; do echo $n $n; done))
    cli zadd zset:small 1 one 2.5 two-and-a-half -inf least inf most 1e20 huge 0.1 tenth -3 minus 3 three
    cli zadd zset:large $(printf '%d.25 member:%d ' $(for n in {1..200}; do echo $n $n; done))
    cli xadd stream:small 1700000000000-0 name apple count 1
    cli xadd stream:small 1700000000000-1 name pear count 2
    cli xadd stream:small 1700000000005-0 other field
    cli xadd stream:small 1700000000005-3 name plum count 300
    cli xdel stream:small 1700000000000-1
    cli xgroup create stream:small readers 0
    cli xreadgroup group readers alice count 2 streams stream:small '>'
    cli xgroup createconsumer stream:small readers bob
    cli xclaim stream:small readers bob 0 1700000000005-0 time 1700000001000 retrycount 3
    cli xclaim stream:small readers alice 0 1700000000000-0 time 1700000002000 retrycount 1
    cli xgroup create stream:small idle '$'
    cli xadd stream:empty 5-5 a b
    cli xdel stream:empty 5-5
    for n in {1..150}; do echo "xadd stream:large $n-1 n $n"; done | cli
    cli -n 3 set other database
    cli -n 3 pexpireat other 4102444800001
}

# save NAME
save() { cli save; mv "$work/data/dump.rdb" "$out/$1"; }

redis62=$3 redis70=$4 valkey81=$5
for version in 6.2 7.0 8.1; do
    case $version in 6.2) start "$redis62" ;; 7.0) start "$redis70" ;; 8.1) start "$valkey81" ;; esac
    fill
    [ "$version" = 6.2 ] ||
        cli function load "#!lua name=fruit
redis.register_function('apple', function() return 'apple' end)"
    save "dump-$version.rdb"
    stop
done

# Frequencies, idle times, and neither checksum nor compression.
start "$redis70" --maxmemory-policy allkeys-lfu --rdbchecksum no --rdbcompression no
cli set string "$(printf 'abc%.0s' {1..20})"
save frequency-7.0.rdb
cli config set maxmemory-policy allkeys-lru
cli set string "$(printf 'abc%.0s' {1..20})"
save idle-7.0.rdb
stop

# An append-only file in several files, with times, and one in one file, with and without an RDB file.
start "$redis70" --appendonly yes --aof-timestamp-enabled yes --appendfilename some.aof --appenddirname append-only-7.0
cli set a 1
cli bgrewriteaof
until redis-cli -p "$port" info persistence | grep -q aof_rewrite_in_progress:0 &&
    redis-cli -p "$port" info persistence | grep -q aof_rewrite_scheduled:0; do sleep 0.1; done
cli set b 2 px 1000000000000
printf 'multi\nincr a\nrpush list x y\nexec\n' | cli
cli -n 2 set c "two words"
stop
rm -rf "$out/append-only-7.0"
mv "$work/data/append-only-7.0" "$out"

for preamble in yes no; do
    start "$redis62" --appendonly yes --aof-use-rdb-preamble "$preamble"
    cli set a 1
    cli bgrewriteaof
    until redis-cli -p "$port" info persistence | grep -q aof_rewrite_in_progress:0; do sleep 0.1; done
    cli incr a
    cli set b 2
    stop
    mv "$work/data/appendonly.aof" "$out/preamble-$preamble-6.2.aof"
done
rm -rf "$work"
