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

type point struct {
	name, action string
	wait         time.Duration
	file         string
	at           int64 // 0 = at every hit
	hits         atomic.Int64
}

// points are the armed failpoints by name.
type points map[string][]*point

// armed panics on a malformed value: a crash test whose crash never happens must not pass.
var armed = sync.OnceValue(func() points {
	all, err := parse(os.Getenv(Variable))
	if err != nil {
		panic("failpoint: " + Variable + ": " + err.Error())
	}
	return all
})

// Hit performs the armed action; a point armed with `error` panics, since the place cannot return
// an error.
func Hit(name string) {
	if err := Err(name); err != nil {
		panic(err)
	}
}

// Err performs the armed action at a place that can return an error.
func Err(name string) error {
	return armed().err(name)
}

// clock is the point whose action moves the process's clock.
const clock = "clock"

// Now is the time by the process's clock, which a test may have set wrong.
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
			die()
		case "sleep":
			time.Sleep(p.wait)
		case "hold":
			hold(p.file)
		case "error":
			return fmt.Errorf("failpoint %s", name)
		}
	}
	return nil
}

// die sends SIGKILL to this process and never returns: the signal may reach another thread first.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// holdPoll is the interval at which a held place looks for its file.
const holdPoll = 5 * time.Millisecond

// hold creates the file, which tells the test that the failpoint is reached, and waits until the
// test removes it.
func hold(file string) {
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

func parse(s string) (points, error) {
	all := make(points)
	for part := range strings.SplitSeq(s, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		p, err := parsePoint(part)
		if err != nil {
			return nil, err
		}
		all[p.name] = append(all[p.name], p)
	}
	return all, nil
}

func parsePoint(s string) (*point, error) {
	left, action, ok := strings.Cut(s, "=")
	if !ok {
		return nil, fmt.Errorf("%q: must be name=action", s)
	}
	p := &point{action: action}
	name, at, counted := strings.Cut(left, "@")
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
