// Package platform describes URR's processes once for development, tests and simulations: services
// and backends, their ports, environment and secrets, and the order in which they start.
package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"urr.guru/scripts/internal/files"
	"urr.guru/scripts/process"
)

// Layout says in which folders a run of the platform keeps its state and on which ports it listens.
type Layout struct {
	Root   string // the checkout
	Offset int    // added to every port
	run    string // name of the run; empty: the checkout's default run
}

// ForRun returns the layout of another run in this checkout. It shares no files or ports with l.
func (l Layout) ForRun(name string, offset int) Layout {
	return Layout{Root: l.Root, Offset: offset, run: name}
}

// Find returns the layout of the checkout that contains the working directory. Without
// URR_PORT_OFFSET it has the ports of the running platform. It returns an error outside a checkout,
// and if the offset is not a number between 0 and 46000.
func Find() (Layout, error) {
	root, err := findRoot()
	if err != nil {
		return Layout{}, err
	}
	l := Layout{Root: root}
	value, isSet := os.LookupEnv(OffsetVariable)
	if !isSet {
		running, err := os.ReadFile(l.offsetFile())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Layout{}, fmt.Errorf("find the ports of what runs: %w", err)
		}
		value = string(running)
	}
	l.Offset, err = ParseOffset(value)
	return l, err
}

// KeepOffset stores the offset of the ports for later commands. ForgetOffset removes it.
func (l Layout) KeepOffset() error {
	return files.Put(l.offsetFile(), []byte(strconv.Itoa(l.Offset)))
}

// ForgetOffset removes the stored offset. Call it when no process of the checkout runs.
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

// Shared returns a path in .urr for files that all runs of the checkout share, such as programs.
func (l Layout) Shared(elem ...string) string {
	return filepath.Join(append([]string{l.Root, ".urr"}, elem...)...)
}

// State returns a path in .urr for files of this run: data, logs, records of processes.
func (l Layout) State(elem ...string) string {
	dir := []string{l.Root, ".urr"}
	if l.run != "" {
		dir = append(dir, "runs", l.run)
	}
	return filepath.Join(append(dir, elem...)...)
}

func (l Layout) ProgramFile(name string) string { return l.Shared("bin", name) }

func (l Layout) LogFile(name string) string { return l.State("logs", name+".log") }

func (l Layout) RunFile(name string) string { return l.State("run", name+".json") }

func (l Layout) Port(basePort int) int { return basePort + l.Offset }

func (l Layout) LoopbackAddr(basePort int) string {
	return "127.0.0.1:" + strconv.Itoa(l.Port(basePort))
}

// OffsetVariable has the number that is added to every port, so that two checkouts can run at once.
const OffsetVariable = "URR_PORT_OFFSET"

const (
	// maxOffset is the greatest offset. With it, the highest port is 65324 (SQS), below 65536.
	maxOffset = 46000
	// offsetStep is the step between offsets that OtherOffset tries.
	offsetStep = 1000
)

// ParseOffset parses a value of URR_PORT_OFFSET; "" means 0. It refuses an offset with which people
// could not open a server in a browser, because browsers block its port.
func ParseOffset(value string) (int, error) {
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxOffset {
		return 0, fmt.Errorf("%s is %q: it must be a number between 0 and %d", OffsetVariable, value, maxOffset)
	}
	if name, port := blockedServer(n); name != "" {
		return 0, fmt.Errorf("%s is %d: browsers open no page on port %d, where %s would listen%s",
			OffsetVariable, n, port, name, OffsetHint("; take another", n))
	}
	return n, nil
}

// blockedServer returns a server that people could not open with this offset, because browsers
// block its port. If there is none, name is "".
func blockedServer(offset int) (name string, port int) {
	for _, s := range Services() {
		for _, base := range s.browserPorts() {
			if slices.Contains(blockedPorts(), base+offset) {
				return s.Name, base + offset
			}
		}
	}
	return "", 0
}

// browserPorts returns the base ports that people open in browsers: HTTP, metrics and profiles.
func (s Service) browserPorts() []int {
	if s.Name == Gateway || s.Name == Sandbox {
		return []int{s.Port, s.OpsPort}
	}
	return []int{s.OpsPort}
}

// OffsetHint returns a hint for the end of an error message: the words, and another usable offset,
// such as (URR_PORT_OFFSET=3000). It is "" if no offset is usable.
func OffsetHint(words string, offset int) string {
	other, found := OtherOffset(offset, process.Free)
	if !found {
		return ""
	}
	return fmt.Sprintf("%s (%s=%d)", words, OffsetVariable, other)
}

// OtherOffset returns the next offset, from start upwards and then from 0, at which all ports of a
// platform are free and not blocked by browsers.
func OtherOffset(start int, free func(port int) bool) (offset int, found bool) {
	isUsable := func(offset int) bool {
		name, _ := blockedServer(offset)
		return name == "" && !slices.ContainsFunc(Ports(), func(base int) bool { return !free(base + offset) })
	}
	for offset = start + offsetStep; offset <= maxOffset; offset += offsetStep {
		if isUsable(offset) {
			return offset, true
		}
	}
	for offset = 0; offset < start; offset += offsetStep {
		if isUsable(offset) {
			return offset, true
		}
	}
	return 0, false
}

// Ports returns the base ports of a platform's services, of the fake providers, and of the backends
// except those that only tests use.
func Ports() []int {
	ports := []int{RedisPort, PostgresPort, KafkaPort, KafkaControllerPort, DynamoDBPort, SQSPort}
	for _, s := range append(Services(), FakeProviders()) {
		ports = append(ports, s.Port, s.OpsPort)
	}
	return ports
}

// blockedPorts lists the ports that browsers block: https://fetch.spec.whatwg.org/#port-blocking.
func blockedPorts() []int {
	return []int{
		0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95,
		101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179,
		389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601,
		636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
		6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
	}
}
