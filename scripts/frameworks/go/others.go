package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/gomodule/redigo/redis"
	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
)

// redsyncLocks counts under a lock.
func redsyncLocks(address string) string {
	version("redsync", "github.com/go-redsync/redsync/v4")
	client := goredisClient(address)
	locks := redsync.New(redsyncpool.NewPool(client))
	var inside, counted atomic.Int64
	var stop atomic.Bool
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for !stop.Load() {
				mutex := locks.NewMutex("lock", redsync.WithExpiry(3*time.Second), redsync.WithTries(200), redsync.WithRetryDelay(20*time.Millisecond))
				if mutex.Lock() != nil {
					continue
				}
				check(inside.Add(1) == 1, "two hold the lock")
				// A read and a write: without the lock, counts would be lost.
				if n, err := client.Get(background, "counter").Int64(); err == nil || n == 0 {
					if client.Set(background, "counter", max(n, counted.Load())+1, 0).Err() == nil {
						counted.Add(1)
					}
				}
				inside.Add(-1)
				mutex.Unlock()
			}
		}()
	}
	time.Sleep(time.Second)
	kill()
	before := counted.Load()
	until("locks again", func() bool { return counted.Load() > before+20 })
	stop.Store(true)
	group.Wait()
	stored, _ := client.Get(background, "counter").Int64()
	check(stored >= counted.Load(), "%d counted, %d acknowledged", stored, counted.Load())
	return fmt.Sprintf("%d counts under the lock", stored)
}

// rueidisCaching reads through a cache of this process, which the server's pushes invalidate.
func rueidisCaching(address string) string {
	version("rueidis", "github.com/redis/rueidis")
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	must(err)
	other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	must(err)
	get := func() string {
		value, _ := client.DoCache(background, client.B().Get().Key("key").Cache(), time.Minute).ToString()
		return value
	}
	changes := 0
	for life := range 2 {
		for range 20 {
			changes++
			value := strconv.Itoa(changes)
			until("a write", func() bool {
				return other.Do(background, other.B().Set().Key("key").Value(value).Build()).Error() == nil
			})
			until("the change is seen", func() bool { return get() == value })
		}
		result := client.DoCache(background, client.B().Get().Key("key").Cache(), time.Minute)
		check(result.IsCacheHit(), "the value is not kept in life %d", life)
		if life == 0 {
			kill()
		}
	}
	return fmt.Sprintf("%d invalidations", changes)
}

// redigoQueue moves jobs from list to list, as a reliable queue does.
func redigoQueue(address string) string {
	version("redigo", "github.com/gomodule/redigo")
	pool := &redis.Pool{MaxIdle: 8, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) },
		TestOnBorrow: func(connection redis.Conn, _ time.Time) error { _, err := connection.Do("PING"); return err }}
	do := func(command string, words ...any) (any, error) {
		connection := pool.Get()
		defer connection.Close()
		return connection.Do(command, words...)
	}
	var acknowledged, worked names
	var stop atomic.Bool
	go func() {
		for n := 0; !stop.Load(); n++ {
			job := "job" + strconv.Itoa(n)
			if _, err := do("LPUSH", "queue", job); err == nil {
				acknowledged.add(job)
			}
		}
	}()
	for c := range 3 {
		own := "own" + strconv.Itoa(c)
		go func() {
			for {
				if job, err := redis.String(do("BLMOVE", "queue", own, "RIGHT", "LEFT", 1)); err == nil {
					worked.add(job)
					do("LREM", own, 1, job)
				}
			}
		}()
	}
	time.Sleep(time.Second)
	kill()
	before := worked.size()
	until("work again", func() bool { return worked.size() > before+50 })
	stop.Store(true)
	// A job that was moved without an answer lies in the worker's own list.
	until("all jobs are there", func() bool {
		for c := range 3 {
			left, _ := redis.Strings(do("LRANGE", "own"+strconv.Itoa(c), 0, -1))
			for _, job := range left {
				worked.add(job)
			}
		}
		return worked.lacks(&acknowledged) == 0
	})
	return fmt.Sprintf("%d jobs", worked.size())
}

// asynqJobs runs tasks at once, later, and again after they failed.
func asynqJobs(address string) string {
	version("asynq", "github.com/hibiken/asynq")
	option := asynq.RedisClientOpt{Addr: address}
	var acknowledged, done, failed names
	server := asynq.NewServer(option, asynq.Config{
		Concurrency: 4, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 300 * time.Millisecond,
		TaskCheckInterval: 100 * time.Millisecond, ShutdownTimeout: time.Second,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 300 * time.Millisecond },
	})
	must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		name := string(task.Payload())
		if task.Type() == "twice" && failed.size() < 1000 {
			tried := &names{}
			tried.add(name)
			if failed.lacks(tried) > 0 {
				failed.add(name)
				return errors.New("the first try fails")
			}
		}
		done.add(name)
		return nil
	})))
	client := asynq.NewClient(option)
	var stop atomic.Bool
	go func() {
		for n := 0; !stop.Load(); n++ {
			name := "task" + strconv.Itoa(n)
			kind, options := "once", []asynq.Option{asynq.MaxRetry(10), asynq.Timeout(10 * time.Second)}
			switch n % 3 {
			case 1:
				options = append(options, asynq.ProcessIn(time.Second))
			case 2:
				kind = "twice"
			}
			if _, err := client.Enqueue(asynq.NewTask(kind, []byte(name)), options...); err == nil {
				acknowledged.add(name)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	time.Sleep(1500 * time.Millisecond)
	kill()
	before := done.size()
	until("tasks are done again", func() bool { return done.size() > before+50 })
	stop.Store(true)
	until("all tasks are done", func() bool { return done.lacks(&acknowledged) == 0 })
	return fmt.Sprintf("%d tasks, %d of them on a second try", done.size(), failed.size())
}
