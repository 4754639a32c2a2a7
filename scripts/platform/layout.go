// Package platform is the single description of URR's processes: services and backends, their
// ports, environment and secrets, and their start order. The development runner, the test harness
// and the simulations all use it, so that a port or a variable is defined once.
package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Layout describes where one run of the platform keeps its state, and on which ports it listens.
type Layout struct {
	Root   string // the checkout
	Offset int    // added to every port
	run    string // empty: the checkout's default run
}

// Run returns another run in the same checkout, with its own state, processes and ports.
func (l Layout) Run(name string, offset int) Layout {
	return Layout{Root: l.Root, Offset: offset, run: name}
}

// Find returns the layout of the checkout that contains the working directory. Without
// URR_PORT_OFFSET it uses the ports of the running platform. It fails outside of a checkout, and
// when the offset is not a number between 0 and 46000.
func Find() (Layout, error) {
	root, err := findRoot()
	if err != nil {
		return Layout{}, err
	}
	l := Layout{Root: root}
	value, given := os.LookupEnv(OffsetVariable)
	if !given {
		running, err := os.ReadFile(l.offsetFile())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Layout{}, fmt.Errorf("find the ports of what runs: %w", err)
		}
		value = string(running)
	}
	l.Offset, err = ParseOffset(value)
	return l, err
}

// KeepOffset records the offset for later commands, until ForgetOffset.
func (l Layout) KeepOffset() error {
	if err := os.MkdirAll(l.State("run"), 0o755); err != nil {
		return fmt.Errorf("keep the offset of the ports: %w", err)
	}
	if err := os.WriteFile(l.offsetFile(), []byte(strconv.Itoa(l.Offset)), 0o600); err != nil {
		return fmt.Errorf("keep the offset of the ports: %w", err)
	}
	return nil
}

// ForgetOffset is called when no process runs any more.
func (l Layout) ForgetOffset() error {
	if err := os.Remove(l.offsetFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the offset of the ports: %w", err)
	}
	return nil
}

func (l Layout) offsetFile() string { return l.State("run", "offset") }

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("this is no checkout of URR: no folder above holds scripts/go.mod")
		}
		dir = parent
	}
}

// Shared is a path below .urr that all runs of the checkout share: programs and jars.
func (l Layout) Shared(elem ...string) string {
	return filepath.Join(append([]string{l.Root, ".urr"}, elem...)...)
}

// State is a path of this run's own state: data, logs, processes.
func (l Layout) State(elem ...string) string {
	dir := []string{l.Root, ".urr"}
	if l.run != "" {
		dir = append(dir, "runs", l.run)
	}
	return filepath.Join(append(dir, elem...)...)
}

func (l Layout) Bin(name string) string { return l.Shared("bin", name) }

func (l Layout) Log(name string) string { return l.State("logs", name+".log") }

func (l Layout) Record(name string) string { return l.State("run", name+".json") }

func (l Layout) Port(base int) int { return base + l.Offset }

func (l Layout) Loopback(base int) string { return "127.0.0.1:" + strconv.Itoa(l.Port(base)) }
