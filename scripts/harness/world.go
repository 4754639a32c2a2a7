package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/process"
	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
)

// world is what all runs of one test process share: backends with their data, programs, secrets.
type world struct {
	layout   platform.Layout
	secrets  platform.Secrets
	backends *backends.Set
	nursery  *process.Nursery
	lock     *os.File     // held for the life of the process: the name of the run is taken
	ports    net.Listener // likewise: its ports are

	mu       sync.Mutex
	built    map[string]bool
	migrated map[string]bool
}

var theWorld = sync.OnceValues(newWorld)

func newWorld() (*world, error) {
	checkout, err := platform.Find()
	if err != nil {
		return nil, err
	}
	w := &world{secrets: platform.NewSecrets(), nursery: process.NewNursery()}
	w.built, w.migrated = map[string]bool{}, map[string]bool{}
	if err := w.claim(checkout); err != nil {
		return nil, err
	}
	w.backends = backends.New(w.layout, false, func(string, ...any) {}).StartedBy(w.nursery.Start)
	if err := w.backends.Wipe(); err != nil {
		return nil, fmt.Errorf("wipe what the run before left: %w", err)
	}
	if err := os.RemoveAll(w.layout.State("logs")); err != nil {
		return nil, fmt.Errorf("wipe what the run before left: %w", err)
	}
	if err := w.backends.Start(context.Background()); err != nil {
		return nil, err
	}
	return w, nil
}

// claim takes the first name that no other test process of the checkout has, and free ports. The
// lock of the name ends with the process.
func (w *world) claim(checkout platform.Layout) error {
	const most = 16
	for i := range most {
		name := "harness-" + strconv.Itoa(i+1)
		layout := checkout.Run(name, 0)
		if err := os.MkdirAll(layout.State(), 0o755); err != nil {
			return fmt.Errorf("make a folder for the run: %w", err)
		}
		f, err := os.OpenFile(layout.State("lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("open the run's lock: %w", err)
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			if err := f.Close(); err != nil {
				return fmt.Errorf("close the run's lock: %w", err)
			}
			continue
		}
		offset, ports, err := claimPorts()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		w.lock, w.ports, w.layout = f, ports, checkout.Run(name, offset)
		return nil
	}
	return fmt.Errorf("%d test processes of this checkout run already", most)
}

// claimPorts finds ports for a whole platform, below those that the kernel gives to outgoing
// connections and above those of checkouts side by side. A name on the machine keeps them from the
// runs of other checkouts while one of ours is down: no two steps apart are two of our ports.
func claimPorts() (offset int, claim net.Listener, err error) {
	const lowest, step, steps = 5000, 100, 79
	bases := []int{
		platform.RedisPort, platform.PostgresPort, platform.KafkaPort, platform.KafkaControllerPort,
		platform.DynamoDBPort, platform.SQSPort,
	}
	for _, s := range platform.Services() {
		bases = append(bases, s.Port, s.OpsPort)
	}
	for _, i := range rand.Perm(steps) {
		offset = lowest + i*step
		claim, err = net.Listen("unix", "@urr-ports-"+strconv.Itoa(offset)) // abstract: it leaves no file
		if err != nil {
			continue
		}
		if allFree(bases, offset) {
			return offset, claim, nil
		}
		if err := claim.Close(); err != nil {
			return 0, nil, fmt.Errorf("give ports back: %w", err)
		}
	}
	return 0, nil, errors.New("no free ports for the platform")
}

func allFree(bases []int, offset int) bool {
	for _, base := range bases {
		for i := range maxReplicas {
			l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.%d:%d", 1+i, base+offset))
			if err != nil {
				return false
			}
			if l.Close() != nil {
				return false
			}
		}
	}
	return true
}

// build makes the programs with failpoints, once per test process.
func (w *world) build(ctx context.Context, services []platform.Service) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for _, s := range services {
		if !w.built[s.Name] {
			missing = append(missing, s.Package)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var out strings.Builder
	if err := programs.Build(ctx, w.layout.Root, w.layout.Shared("bin", "failpoint"), &out, []string{"-tags=failpoint", "-buildvcs=false"}, missing...); err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	for _, s := range services {
		w.built[s.Name] = true
	}
	return nil
}

func (w *world) program(s platform.Service) string {
	return w.layout.Shared("bin", "failpoint", filepath.Base(s.Package))
}

// base is the part of the environment that does not depend on the service; the test's own
// environment stays outside.
func (w *world) base() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOMAXPROCS=2"}
}

// migrate brings the tables and topics of a service to what its program expects, once per process.
func (w *world) migrate(ctx context.Context, s platform.Service, env []string) error {
	if w.isMigrated(s.Name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.program(s), "migrate")
	cmd.Env = env
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s migrate: %w\n%s", s.Name, err, out.String())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.migrated[s.Name] = true
	return nil
}

func (w *world) isMigrated(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.migrated[name]
}

// heal brings back every backend that a test has killed or paused.
func (w *world) heal() error {
	for _, name := range Backends() {
		if w.backends.Running(name) {
			if err := w.backends.Signal(name, syscall.SIGCONT); err != nil {
				return err
			}
		}
	}
	return w.backends.Start(context.Background())
}
