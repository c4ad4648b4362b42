// Programs of scripts/test-frameworks that use Go's clients: `programs PROGRAM SCENARIO HOST PORT`.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

var input = bufio.NewReader(os.Stdin)

// kill has the server killed, and waits until it is back.
func kill() {
	fmt.Println("kill")
	input.ReadString('\n')
}

// version says which version of a module is in this program.
func version(name, module string) {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			fmt.Println("version", name, strings.TrimPrefix(dependency.Version, "v"))
		}
	}
}

// until waits until the condition holds, or says that it did not.
func until(what string, holds func() bool) {
	for end := time.Now().Add(25 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "not in time: %s", what)
	}
}

func check(holds bool, format string, words ...any) {
	if !holds {
		fmt.Println("fail", fmt.Sprintf(format, words...))
		os.Exit(0)
	}
}

func must(err error) { check(err == nil, "%v", err) }

// names is a set of names that several goroutines use.
type names struct {
	sync.Mutex
	set map[string]bool
}

func (n *names) add(name string) {
	n.Lock()
	defer n.Unlock()
	if n.set == nil {
		n.set = map[string]bool{}
	}
	n.set[name] = true
}

func (n *names) size() int {
	n.Lock()
	defer n.Unlock()
	return len(n.set)
}

// lacks counts the names of another set that this one lacks.
func (n *names) lacks(other *names) int {
	n.Lock()
	defer n.Unlock()
	other.Lock()
	defer other.Unlock()
	lost := 0
	for name := range other.set {
		if !n.set[name] {
			lost++
		}
	}
	return lost
}

func main() {
	program, scenario, address := os.Args[1], os.Args[2], net.JoinHostPort(os.Args[3], os.Args[4])
	jobs := map[string]func(string) string{
		"goredis/transactions": goredisTransactions,
		"goredis/streams":      goredisStreams,
		"goredis/pubsub":       goredisPubSub,
		"redsync/locks":        redsyncLocks,
		"rueidis/caching":      rueidisCaching,
		"redigo/queue":         redigoQueue,
		"asynq/jobs":           asynqJobs,
	}
	fmt.Println("pass", jobs[program+"/"+scenario](address))
}
