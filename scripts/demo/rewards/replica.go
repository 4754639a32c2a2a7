package rewards

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
	"urr.guru/scripts/runner"
)

// Time limits for starting and stopping the replica.
const (
	readyLimit = time.Minute
	stopGrace  = 15 * time.Second
)

// replica is a second replica of the reward service, beside that of `make up`, at another loopback
// address. It ends when this program ends, for whatever reason.
type replica struct {
	spec     process.Spec
	ready    string // URL of /readyz
	children *process.Children
	current  *process.Process // nil: not started
}

var _ Replica = (*replica)(nil)

func newReplica(local *runner.Runner, layout platform.Layout, s platform.Service) *replica {
	secondAddr := func(port int) string { return net.JoinHostPort("127.0.0.2", strconv.Itoa(layout.Port(port))) }
	listen := platform.ListenAddrs{Addr: secondAddr(s.Port), Ops: secondAddr(s.OpsPort)}
	return &replica{
		spec:  local.ReplicaSpec(s, s.Name+"-2", listen),
		ready: "http://" + listen.Ops + "/readyz", children: process.NewChildren(),
	}
}

func (r *replica) Start(ctx context.Context) error {
	p, err := r.children.Start(r.spec)
	if err != nil {
		return err
	}
	r.current = p
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	return p.WaitReady(ctx, r.spec, func(ctx context.Context) error {
		_, err := fetch.Get(ctx, r.ready)
		return err
	})
}

func (r *replica) Kill() error {
	if err := r.current.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-r.current.Done()
	return nil
}

func (r *replica) Stop() error {
	if r.current == nil || !r.current.Alive() {
		return nil
	}
	return r.current.Stop(syscall.SIGTERM, stopGrace)
}

// reconcile runs the command `reward reconcile` with the replica's environment.
func (r *replica) reconcile(ctx context.Context) (output string, code int) {
	cmd := exec.CommandContext(ctx, r.spec.Path, "reconcile")
	cmd.Env = r.spec.Env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return err.Error(), -1 // the program could not be started
	}
	return string(out), cmd.ProcessState.ExitCode()
}
