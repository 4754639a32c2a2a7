//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Variable is the environment variable that arms failpoints.
const Variable = "URR_FAILPOINTS"

// point is one failpoint with the action that URR_FAILPOINTS gives it.
type point struct {
	name, action string
	wait         time.Duration
	file         string
	at           int64 // the only hit at which it acts, counted from 1; 0 means every hit
	hits         atomic.Int64
}

// points are the armed failpoints by name.
type points map[string][]*point

// armed parses URR_FAILPOINTS once. It panics on an error: a crash test without a crash must fail.
var armed = sync.OnceValue(func() points {
	all, err := parsePoints(os.Getenv(Variable))
	if err != nil {
		panic("failpoint: " + Variable + ": " + err.Error())
	}
	return all
})

// Hit carries out the action armed for a failpoint, if any. The action `error` panics, since the
// caller cannot return an error.
func Hit(name string) {
	if err := Err(name); err != nil {
		panic(err)
	}
}

// Err carries out the action armed for a failpoint, if any; the action `error` makes it fail.
func Err(name string) error {
	return armed().err(name)
}

// clock is the failpoint whose action shifts the process's clock.
const clock = "clock"

// Now returns the time by the process's clock, which a test may have shifted.
func Now() time.Time { return time.Now().Add(armed().skew()) }

func (ps points) skew() time.Duration {
	for _, p := range ps[clock] {
		return p.wait
	}
	return 0
}

func (ps points) err(name string) error {
	for _, p := range ps[name] {
		if n := p.hits.Add(1); p.at != 0 && n != p.at {
			continue
		}
		switch p.action {
		case "exit":
			killProcess()
		case "sleep":
			time.Sleep(p.wait)
		case "hold":
			createFileAndWait(p.file)
		case "error":
			return fmt.Errorf("failpoint %s", name)
		}
	}
	return nil
}

// killProcess sends SIGKILL to this process. It never returns.
func killProcess() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// holdPoll is the interval at which a held failpoint checks whether its file still exists.
const holdPoll = 5 * time.Millisecond

// createFileAndWait creates the file, which tells the test that the failpoint was reached, and
// waits until the test removes it.
func createFileAndWait(file string) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		panic("failpoint: " + err.Error())
	}
	for {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(holdPoll)
	}
}

func parsePoints(s string) (points, error) {
	all := make(points)
	for entry := range strings.SplitSeq(s, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		p, err := parsePoint(entry)
		if err != nil {
			return nil, err
		}
		all[p.name] = append(all[p.name], p)
	}
	return all, nil
}

func parsePoint(s string) (*point, error) {
	nameAndCount, action, ok := strings.Cut(s, "=")
	if !ok {
		return nil, fmt.Errorf("%q: must be name=action", s)
	}
	p := &point{action: action}
	name, at, counted := strings.Cut(nameAndCount, "@")
	p.name = name
	if counted {
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: after @ stands a whole number ≥ 1", s)
		}
		p.at = n
	}
	if skew, ok := strings.CutPrefix(action, "skew:"); ok || name == clock {
		d, err := time.ParseDuration(skew)
		if !ok || name != clock || counted || err != nil {
			return nil, fmt.Errorf("%q: must be clock=skew:<duration>", s)
		}
		p.action, p.wait = "skew", d
		return p, nil
	}
	if wait, ok := strings.CutPrefix(action, "sleep:"); ok {
		d, err := time.ParseDuration(wait)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q: after sleep: stands a duration", s)
		}
		p.action, p.wait = "sleep", d
		return p, nil
	}
	if file, ok := strings.CutPrefix(action, "hold:"); ok {
		if !filepath.IsAbs(file) {
			return nil, fmt.Errorf("%q: after hold: stands the absolute path of a file", s)
		}
		p.action, p.file = "hold", file
		return p, nil
	}
	if action != "exit" && action != "error" {
		return nil, fmt.Errorf("%q: the action must be exit, error, sleep:<duration> or hold:<file>", s)
	}
	return p, nil
}
