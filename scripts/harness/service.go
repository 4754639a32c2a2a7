package harness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// Service controls the replicas of one service, counted from 0. If a method fails, the test fails.
type Service struct {
	p    *Platform
	desc platform.Service

	mu       sync.Mutex // guards the processes
	replicas []replica
	// crashed is true once a replica was started again after a SIGKILL.
	crashed bool
}

type replica struct {
	listen     platform.ListenAddrs
	proc       *process.Process // nil: not running
	oldLogSize int64            // size of the replica's log before this run
	env        []string         // variables of this replica only, set by RestartWith
	// old is true while the replica runs the program of Options.Upgrade.
	old bool
}

func (s *Service) Replicas() int { return len(s.replicas) }

// Addr returns the address of replica i: HTTP for the gateway and the sandbox, otherwise gRPC.
func (s *Service) Addr(i int) string { return s.replicas[i].listen.Addr }

func (s *Service) Ops(i int) string { return s.replicas[i].listen.Ops }

func (s *Service) PID(i int) int {
	s.p.tb.Helper()
	return s.requireStarted(i).PID
}

func (s *Service) Kill(i int) {
	s.p.tb.Helper()
	s.signal(i, syscall.SIGKILL)
	s.AwaitEnd(i)
}

// Pause suspends replica i by SIGSTOP: its connections stay open, and it does not respond.
func (s *Service) Pause(i int) {
	s.p.tb.Helper()
	s.signal(i, syscall.SIGSTOP)
}

func (s *Service) Resume(i int) {
	s.p.tb.Helper()
	s.signal(i, syscall.SIGCONT)
}

// Stop stops replica i as a deployment does: by SIGTERM, with time to finish.
func (s *Service) Stop(i int) {
	s.p.tb.Helper()
	s.p.requireOwn(s.name(i))
	if err := s.end(i); err != nil {
		s.p.tb.Fatalf("harness: stop %s: %v", s.name(i), err)
	}
}

func (s *Service) Start(i int) {
	s.p.tb.Helper()
	s.begin(i, "")
}

// RestartWith restarts replica i with additional NAME=value pairs, which its later starts keep. No
// other replica gets them.
func (s *Service) RestartWith(i int, env ...string) {
	s.p.tb.Helper()
	s.Stop(i)
	s.replicas[i].env = env
	s.begin(i, "")
}

// RestartWithFailpoints restarts replica i with failpoints (`name=exit;name@3=error;…`), which may
// end it before it is ready. The next Start starts it without failpoints.
func (s *Service) RestartWithFailpoints(i int, failpoints string) {
	s.p.tb.Helper()
	s.Stop(i)
	s.begin(i, failpoints)
}

// AwaitEnd waits until replica i has exited and returns how, such as "exit status 1".
func (s *Service) AwaitEnd(i int) string {
	s.p.tb.Helper()
	proc := s.requireStarted(i)
	select {
	case <-proc.Done():
		return proc.Exit()
	case <-time.After(readyLimit):
		s.p.tb.Fatalf("harness: %s has not ended after %v", s.name(i), readyLimit)
		return ""
	}
}

// Command runs the service's program with arguments, beside its replicas, and returns what it
// printed and the exit code.
func (s *Service) Command(ctx context.Context, args ...string) (output string, code int) {
	s.p.tb.Helper()
	cmd := exec.CommandContext(ctx, s.p.program(s.desc, false), args...)
	cmd.Env = s.p.replicaEnv(s, 0)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.p.tb.Fatalf("harness: %s %s: %v", s.desc.Name, strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (s *Service) Running(i int) bool {
	proc := s.proc(i)
	return proc != nil && proc.Alive()
}

// Metric reads replica i's metrics and returns the sum of the samples whose line begins with the
// text start, such as `urr_holds_total{result="held"`; 0 if there are none.
func (s *Service) Metric(ctx context.Context, i int, start string) (float64, error) {
	body, err := fetch.Get(ctx, "http://"+s.Ops(i)+"/metrics")
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, start) {
			continue
		}
		fields := strings.Fields(line[strings.LastIndexByte(line, '}')+1:])
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(fields[len(fields)-1], &v); err != nil {
			return 0, fmt.Errorf("metric line %q: %w", line, err)
		}
		sum += v
	}
	return sum, nil
}

func (s *Service) name(i int) string { return fmt.Sprintf("%s-%d", s.desc.Name, i) }

func (s *Service) proc(i int) *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas[i].proc
}

// requireStarted returns the process of replica i. If it was never started, the test fails.
func (s *Service) requireStarted(i int) *process.Process {
	s.p.tb.Helper()
	proc := s.proc(i)
	if proc == nil {
		s.p.tb.Fatalf("harness: %s does not run", s.name(i))
	}
	return proc
}

func (s *Service) begin(i int, failpoints string) {
	s.p.tb.Helper()
	s.p.requireOwn(s.name(i))
	err := s.start(i, failpoints)
	if err == nil {
		err = s.awaitReady(s.p.tb.Context(), i)
	}
	if err != nil && (failpoints == "" || s.Running(i)) {
		s.p.tb.Fatalf("harness: start %s: %v", s.name(i), err)
	}
}

func (s *Service) startAll(ctx context.Context) error {
	for i := range s.replicas {
		if err := s.start(i, ""); err != nil {
			return err
		}
	}
	for i := range s.replicas {
		if err := s.awaitReady(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) start(i int, failpoints string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if proc := s.replicas[i].proc; proc != nil {
		if proc.Alive() {
			return fmt.Errorf("%s runs already", s.name(i))
		}
		<-proc.Done()
		s.crashed = s.crashed || proc.Exit() == "signal: killed"
	}
	env := s.p.replicaEnv(s, i)
	if failpoints != "" {
		env = append(env, "URR_FAILPOINTS="+failpoints)
	}
	proc, err := s.p.testRun.children.Start(process.Spec{
		Name: s.name(i), Path: s.p.program(s.desc, s.replicas[i].old), Env: env,
		Dir: s.p.workspace.layout.State(), Log: s.p.workspace.layout.LogFile(s.name(i)),
	})
	if err != nil {
		return err
	}
	s.replicas[i].proc = proc
	return nil
}

func (s *Service) awaitReady(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	spec := process.Spec{Name: s.name(i), Log: s.p.workspace.layout.LogFile(s.name(i))}
	return s.proc(i).WaitReady(ctx, spec, func(ctx context.Context) error {
		_, err := fetch.Get(ctx, "http://"+s.Ops(i)+"/readyz")
		return err
	})
}

// endAll stops all replicas concurrently. If one was killed before, it kills all of them: Kafka may
// wait 10 s for the dead member of a consumer group, and no other member can leave meanwhile.
func (s *Service) endAll() error {
	s.mu.Lock()
	crashed := s.crashed
	s.mu.Unlock()
	var group errgroup.Group
	for i := range s.replicas {
		group.Go(func() error {
			if proc := s.proc(i); crashed && proc != nil && proc.Alive() {
				_ = proc.Signal(syscall.SIGKILL) // the process may have just exited
				<-proc.Done()
			}
			if err := s.end(i); err != nil {
				return fmt.Errorf("stop %s: %w", s.name(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// end stops replica i, even if it is suspended.
func (s *Service) end(i int) error {
	proc := s.proc(i)
	if proc == nil || !proc.Alive() {
		return nil
	}
	if err := proc.Signal(syscall.SIGCONT); err != nil {
		return nil //nolint:nilerr // the process has exited since the check
	}
	if err := proc.Stop(syscall.SIGTERM, stopGrace); err != nil {
		return err
	}
	<-proc.Done()
	return nil
}

func (s *Service) signal(i int, sig syscall.Signal) {
	s.p.tb.Helper()
	s.p.requireOwn(s.name(i))
	if err := s.requireStarted(i).Signal(sig); err != nil {
		s.p.tb.Fatalf("harness: signal %s: %v", s.name(i), err)
	}
}

// requireOwn fails the test if this is the shared platform, whose processes no test may change.
func (p *Platform) requireOwn(name string) {
	p.tb.Helper()
	if p.shared {
		p.tb.Fatalf("harness: %s belongs to a shared platform, whose processes are left alone: use Start", name)
	}
}

// showLogs adds the end of each replica's log to the test's output, without lines of earlier runs.
func (s *Service) showLogs() {
	for i := range s.replicas {
		path := s.p.workspace.layout.LogFile(s.name(i))
		s.p.tb.Logf("the end of %s:\n%s", path, process.TailFrom(path, s.replicas[i].oldLogSize, 15))
	}
}
