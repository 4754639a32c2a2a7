package runner

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/process"
)

// When `make up` is interrupted by Ctrl-C, the processes that it has started are stopped. If others
// ran before, nothing is stopped.
func TestInterruptedStartIsUndone(t *testing.T) {
	r := setup(t)
	require.True(t, r.isIdle())
	p := startOne(t, r)
	require.False(t, r.isIdle())

	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	require.EqualError(t, r.undoStart(interrupted, false), "interrupted; what ran before runs on (make status, make down)")
	require.True(t, p.Alive())
	require.EqualError(t, r.undoStart(interrupted, true), "interrupted; everything that was started is stopped again")
	require.False(t, p.Alive())
	require.True(t, r.isIdle())
}

// restart finds invalid settings and ports in use before it stops the running processes.
func TestUpChecksBeforeStopping(t *testing.T) {
	r := setup(t)
	p := startOne(t, r)
	t.Setenv("QUEUE_THRESHOLD", "none")
	err := r.restart(t.Context())
	require.ErrorContains(t, err, "queue would not start (exit status 2); what runs is left as it is:")
	require.ErrorContains(t, err, `config: QUEUE_THRESHOLD="none": must be a whole number`)
	require.True(t, p.Alive())

	t.Setenv("QUEUE_THRESHOLD", "5")
	other, err := net.Listen("tcp", r.layout.LoopbackAddr(r.services[1].Port))
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.ErrorContains(t, r.restart(t.Context()), "end it, or run this checkout on other ports")
	require.True(t, p.Alive())
	require.NoError(t, r.stopServices())
}

// startOne starts the first service and saves its run file, as the supervisor does.
func startOne(t *testing.T, r *Runner) *process.Process {
	t.Helper()
	s := r.services[0]
	p, err := process.Start(process.Spec{
		Name: s.Name, Path: r.layout.ProgramFile(s.Name), Dir: r.layout.Root, Log: r.layout.LogFile(s.Name),
		Env: []string{"LOG_LEVEL=a service of a test", "OPS_ADDR=" + r.layout.LoopbackAddr(s.OpsPort)},
	})
	require.NoError(t, err)
	require.NoError(t, process.Save(r.layout.RunFile(s.Name), runRecord{Identity: p.Identity, Started: time.Now()}))
	return p
}
