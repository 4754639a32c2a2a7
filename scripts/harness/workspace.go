package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"urr.guru/pkg/filelock"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
)

// workspace contains what one platform of a test owns: a name with a folder, ports, secrets, and
// its own backends or a namespace on shared ones.
type workspace struct {
	layout    platform.Layout
	number    int // part of the name
	secrets   platform.Secrets
	backends  *backends.Set // its own; nil: it has a namespace on the checkout's
	namespace *namespace
	unlock    func()       // releases the name, which is reserved as long as the workspace exists
	ports     net.Listener // held as long as the workspace exists: reserves the ports

	mu       sync.Mutex
	migrated map[string]bool // by the path of the program
}

// maxWorkspaces is the maximum number of concurrent runs of a checkout, limited by the number of
// Redis databases.
const maxWorkspaces = 15

// claimWorkspace reserves the first name that no other run of the checkout uses, and free ports.
// The lock of the name is released at the latest when the process ends.
func claimWorkspace(checkout platform.Layout) (*workspace, error) {
	for number := 1; number <= maxWorkspaces; number++ {
		name := "harness-" + strconv.Itoa(number)
		layout := checkout.Run(name, 0)
		unlock, taken, err := filelock.TryLock(layout.State("lock"))
		if err != nil {
			return nil, fmt.Errorf("reserve the run's name: %w", err)
		}
		if !taken {
			continue
		}
		offset, ports, err := claimPorts()
		if err == nil {
			// The ledger of an earlier run refers to deleted payments.
			err = errors.Join(os.RemoveAll(layout.State("logs")), os.RemoveAll(layout.State("data", platform.Sandbox)))
		}
		if err != nil {
			unlock()
			return nil, err
		}
		return &workspace{
			layout: checkout.Run(name, offset), number: number, secrets: platform.NewSecrets(), unlock: unlock, ports: ports,
			migrated: map[string]bool{},
		}, nil
	}
	return nil, fmt.Errorf("%d runs of this checkout's platform are under way: no name is left", maxWorkspaces)
}

// release removes the run's data from the checkout's backends, and releases the name and the ports.
func (s *workspace) release(ctx context.Context) error {
	defer s.unlock()
	return errors.Join(s.namespace.sweep(ctx), s.ports.Close())
}

func (s *workspace) wiring() platform.Wiring {
	w := s.layout.Wiring(s.secrets)
	w.OIDC = true
	if s.namespace != nil {
		s.namespace.wire(&w)
	}
	return w
}

// migrate updates the tables and topics of a service for its program, once per workspace and
// program.
func (s *workspace) migrate(ctx context.Context, service platform.Service, program string, env []string) error {
	s.mu.Lock()
	done := s.migrated[program]
	s.mu.Unlock()
	if done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "migrate")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s migrate: %w\n%s", service.Name, err, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.migrated[program] = true
	return nil
}

// restoreBackends resumes or restarts every backend of the workspace that a test has paused or
// killed.
func (s *workspace) restoreBackends() error {
	for _, name := range Backends() {
		if s.backends.Running(name) {
			if err := s.backends.Signal(name, syscall.SIGCONT); err != nil {
				return err
			}
		}
	}
	return s.backends.Start(context.Background())
}

// claimPorts finds ports for a whole platform, below those that the kernel assigns to outgoing
// connections and above those of other checkouts. An abstract socket reserves them machine-wide
// while a process of the run is down: the ports of different steps do not overlap.
func claimPorts() (offset int, claim net.Listener, err error) {
	const lowest, step, steps = 5000, 100, 79
	for _, i := range rand.Perm(steps) {
		offset = lowest + i*step
		claim, err = net.Listen("unix", "@urr-ports-"+strconv.Itoa(offset)) // an abstract name leaves no file
		if err != nil {
			continue
		}
		if allFree(platform.Ports(), offset) {
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
			if err != nil || l.Close() != nil {
				return false
			}
		}
	}
	return true
}
