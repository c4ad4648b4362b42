package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var background = context.Background()

func goredisClient(address string) *redis.Client {
	version("go-redis", "github.com/redis/go-redis/v9")
	return redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
}

// goredisTransactions makes optimistic transfers (WATCH, MULTI), each with an entry of a journal.
func goredisTransactions(address string) string {
	client := goredisClient(address)
	must(client.MSet(background, "a", 100000, "b", 100000).Err())
	var acknowledged names
	var stop atomic.Bool
	var group sync.WaitGroup
	for t := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; !stop.Load(); n++ {
				id := fmt.Sprintf("%d:%d", t, n)
				err := client.Watch(background, func(tx *redis.Tx) error {
					a, err := tx.Get(background, "a").Int()
					if err != nil {
						return err
					}
					_, err = tx.TxPipelined(background, func(pipe redis.Pipeliner) error {
						pipe.Set(background, "a", a-1, 0)
						pipe.IncrBy(background, "b", 1)
						pipe.HSet(background, "journal", id, 1)
						return nil
					})
					return err
				}, "a")
				if err == nil {
					acknowledged.add(id)
				}
			}
		}()
	}
	time.Sleep(time.Second)
	kill()
	before := acknowledged.size()
	until("transfers again", func() bool { return acknowledged.size() > before+50 })
	stop.Store(true)
	group.Wait()
	a, _ := client.Get(background, "a").Int()
	b, _ := client.Get(background, "b").Int()
	journal := client.HGetAll(background, "journal").Val()
	check(a+b == 200000 && b-100000 == len(journal), "a %d, b %d, %d in the journal", a, b, len(journal))
	var stored names
	for id := range journal {
		stored.add(id)
	}
	check(stored.lacks(&acknowledged) == 0, "%d transfers are lost", stored.lacks(&acknowledged))
	return fmt.Sprintf("%d optimistic transfers", len(journal))
}

// goredisStreams has a consumer group work on what is added.
func goredisStreams(address string) string {
	client := goredisClient(address)
	must(client.XGroupCreateMkStream(background, "events", "workers", "0").Err())
	var acknowledged, worked names
	var stop atomic.Bool
	go func() {
		for n := 0; !stop.Load(); n++ {
			job := "job" + strconv.Itoa(n)
			if client.XAdd(background, &redis.XAddArgs{Stream: "events", Values: []any{"job", job}}).Err() == nil {
				acknowledged.add(job)
			}
		}
	}()
	for c := range 2 {
		consumer := "consumer" + strconv.Itoa(c)
		go func() {
			for {
				entries, _, _ := client.XAutoClaim(background, &redis.XAutoClaimArgs{
					Stream: "events", Group: "workers", Consumer: consumer, MinIdle: 500 * time.Millisecond, Start: "0", Count: 50,
				}).Result()
				read, _ := client.XReadGroup(background, &redis.XReadGroupArgs{
					Group: "workers", Consumer: consumer, Streams: []string{"events", ">"}, Count: 20, Block: 200 * time.Millisecond,
				}).Result()
				for _, stream := range read {
					entries = append(entries, stream.Messages...)
				}
				for _, entry := range entries {
					worked.add(entry.Values["job"].(string))
					client.XAck(background, "events", "workers", entry.ID)
				}
			}
		}()
	}
	time.Sleep(time.Second)
	kill()
	before := worked.size()
	until("work again", func() bool { return worked.size() > before+50 })
	stop.Store(true)
	until("all work done", func() bool { return worked.lacks(&acknowledged) == 0 })
	until("nothing pending", func() bool {
		pending, err := client.XPending(background, "events", "workers").Result()
		return err == nil && pending.Count == 0
	})
	return fmt.Sprintf("%d entries worked on", worked.size())
}

// goredisPubSub subscribes by channel, pattern and shard; the client subscribes again by itself.
func goredisPubSub(address string) string {
	client := goredisClient(address)
	var heard names
	hear := func(kind string, subscription *redis.PubSub) {
		for message := range subscription.Channel(redis.WithChannelHealthCheckInterval(time.Second)) {
			heard.add(kind + message.Payload)
		}
	}
	go hear("c", client.Subscribe(background, "news"))
	go hear("p", client.PSubscribe(background, "ne*"))
	go hear("s", client.SSubscribe(background, "shard"))
	number := 0
	hears := func() {
		until("a message by channel, pattern and shard", func() bool {
			number++
			client.Publish(background, "news", number)
			client.SPublish(background, "shard", number)
			time.Sleep(20 * time.Millisecond)
			var all names
			for _, kind := range []string{"c", "p", "s"} {
				all.add(kind + strconv.Itoa(number))
			}
			return heard.lacks(&all) == 0
		})
	}
	hears()
	kill()
	hears()
	return "heard before and after"
}
