package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/token"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// Up starts all processes that do not run, and restarts services whose program or settings changed.
func (r *Runner) Up(ctx context.Context) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	idle := r.isIdle()
	if err = r.bringUp(ctx); err != nil && ctx.Err() != nil {
		return r.undoStart(ctx, idle)
	}
	return err
}

// bringUp does the work of Up; the caller holds the lock.
func (r *Runner) bringUp(ctx context.Context) error {
	if err := r.Build(ctx); err != nil {
		return err
	}
	if err := backends.New(r.layout, false, r.say).StartAndKeep(ctx); err != nil {
		return err
	}
	current, err := r.isCurrent()
	if err != nil {
		return err
	}
	if !current {
		if err := r.restart(ctx); err != nil {
			return err
		}
	}
	for _, s := range r.services {
		if err := r.awaitReady(ctx, s); err != nil {
			return err
		}
	}
	if err := r.seed(ctx); err != nil {
		return fmt.Errorf("seed the demo sale: %w", err)
	}
	r.printAddresses()
	return nil
}

func (r *Runner) isIdle() bool {
	set := backends.New(r.layout, true, r.say)
	return !r.anyRunning() && !slices.ContainsFunc(set.Names(), set.Running)
}

// undoStart cleans up after an interrupted start. If nothing ran before (idle), it stops the
// started processes, so that no part of a platform runs on.
func (r *Runner) undoStart(ctx context.Context, idle bool) error {
	if !idle {
		return errors.New("interrupted; what ran before runs on (make status, make down)")
	}
	quiet := *r
	quiet.say = func(string, ...any) {}
	ctx = context.WithoutCancel(ctx)
	err := quiet.stopServices()
	if err == nil {
		err = quiet.StopBackends(ctx)
	}
	if err != nil {
		return fmt.Errorf("interrupted; stop what was started: %w", err)
	}
	return errors.New("interrupted; everything that was started is stopped again")
}

// isCurrent reports whether the supervisor runs, and all services run with their newest programs
// and current settings.
func (r *Runner) isCurrent() (bool, error) {
	supervisor, found, err := r.loadRecord(supervisorName)
	if err != nil || !found || !supervisor.Alive() {
		return false, err
	}
	for _, s := range r.services {
		want, err := r.fingerprint(s)
		if err != nil {
			return false, err
		}
		rec, found, err := r.loadRecord(s.Name)
		if err != nil {
			return false, err
		}
		if !found || rec.Fingerprint != want {
			return false, nil
		}
	}
	return true, nil
}

// restart stops the running services, migrates the stores, and starts a new supervisor. Before
// that, it returns an error if it finds a problem that would prevent the start.
func (r *Runner) restart(ctx context.Context) error {
	if err := r.checkSettings(ctx); err != nil {
		return err
	}
	if err := r.checkPorts(r.stoppedServices()); err != nil {
		return err
	}
	if err := r.stopServices(); err != nil {
		return err
	}
	if err := r.checkPorts(r.services); err != nil {
		return err
	}
	for _, s := range r.services {
		if s.Migrates {
			if err := r.migrate(ctx, s); err != nil {
				return err
			}
		}
	}
	p, err := process.Start(process.Spec{
		Name: supervisorName, Path: r.layout.ProgramFile(supervisorProgram), Args: []string{"supervise"},
		Env: os.Environ(), Dir: r.layout.Root, Log: r.layout.LogFile(supervisorName),
	})
	if err != nil {
		return err
	}
	if err := process.Save(r.layout.RunFile(supervisorName), runRecord{Identity: p.Identity, Started: time.Now()}); err != nil {
		return errors.Join(err, p.Stop(syscall.SIGTERM, stopGrace))
	}
	return nil
}

// checkSettings runs each service's command that checks the settings with which it would start.
func (r *Runner) checkSettings(ctx context.Context) error {
	for _, s := range r.services {
		if s.Name == platform.Sandbox {
			continue // users set nothing for the sandbox
		}
		if out, err := r.command(ctx, s, "check"); err != nil {
			return fmt.Errorf("%s would not start (%w); what runs is left as it is:\n%s", s.Name, err, out)
		}
	}
	return nil
}

func (r *Runner) stoppedServices() []platform.Service {
	return slices.DeleteFunc(slices.Clone(r.services), func(s platform.Service) bool {
		rec, found, err := r.loadRecord(s.Name)
		return err == nil && found && rec.Alive()
	})
}

func (r *Runner) checkPorts(services []platform.Service) error {
	for _, s := range services {
		for _, port := range []int{s.Port, s.OpsPort} {
			if err := process.CheckPort(r.layout.Port(port)); err != nil {
				return fmt.Errorf("%s: %w; end it%s",
					s.Name, err, platform.OffsetHint(", or run this checkout on other ports", r.layout.Offset))
			}
		}
	}
	return nil
}

// migrate runs a service's command migrate, which updates the service's tables, topics and queues.
func (r *Runner) migrate(ctx context.Context, s platform.Service) error {
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	began := time.Now()
	if out, err := r.command(ctx, s, "migrate"); err != nil {
		return fmt.Errorf("%s migrate: %w\n%s", s.Name, err, out)
	}
	r.say("%-16s migrated in %.1f s", s.Name, time.Since(began).Seconds())
	return nil
}

// awaitReady waits until a service is ready. If the service first exits three times, it returns an
// error with the end of the service's log.
func (r *Runner) awaitReady(ctx context.Context, s platform.Service) error {
	const crashes = 3
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		readyErr := r.checkReady(ctx, s)
		rec, found, err := r.loadRecord(s.Name)
		if err != nil {
			return err
		}
		alive := found && rec.Alive()
		if readyErr == nil && alive {
			r.say("%-16s ready on %d after %.1f s", s.Name, r.layout.Port(s.Port), time.Since(began).Seconds())
			return nil
		}
		if rec.Restarts >= crashes && !alive {
			return fmt.Errorf("%s does not stay up (%s); %s", s.Name, rec.LastExit, process.LogEnd(r.layout.LogFile(s.Name)))
		}
		if !loop.Sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %w; %s", s.Name, readyErr, process.LogEnd(r.layout.LogFile(s.Name)))
		}
	}
}

func (r *Runner) printAddresses() {
	signInHelp := `Sign in on %[1]s/login with any name, or by

  curl -s -X POST %[1]s/api/v1/auth/dev-login -H 'content-type: application/json' -d '{"userId":"alice"}'

(add "roles":["admin"] for the operators' calls; send the answer's token as Authorization: Bearer).`
	if r.layout.Wiring(r.secrets).OIDC {
		signInHelp = `Sign in on %[1]s/login at the sandbox's identity provider, with any name.`
	}
	r.say(`
URR is up.

  pages      %[1]s/
  a sale     %[1]s/events/%[2]s
  API docs   %[1]s/docs
  e-mails    %[3]s/mail/

`+signInHelp+`
make status, make logs S=queue, make down.`, r.layout.GatewayURL(), demoEvent, r.layout.Wiring(r.secrets).SandboxURL)
}

// demoEvent is the event id of the demo sale, which a new platform gets.
const demoEvent = "demo"

// seed creates the demo sale on this platform. If users sign in at the sandbox's identity provider,
// it makes a session for the operator, signed with the checkout's own key.
func (r *Runner) seed(ctx context.Context) error {
	if !r.layout.Wiring(r.secrets).OIDC {
		return Seed(ctx, r.layout.GatewayURL(), r.say)
	}
	keys, err := token.ParseKeySet(config.Secret(r.secrets.Session))
	if err != nil {
		return err
	}
	tok, err := keys.Sign(claims.NewSession("operator", []string{"admin"}, time.Now(), time.Now().Add(time.Minute)))
	if err != nil {
		return err
	}
	return seedAs(ctx, r.layout.GatewayURL(), r.say, func(_ context.Context, operator *crowd.Session) error {
		operator.UseToken(tok)
		return nil
	})
}

// Seed creates the demo sale if it does not exist, by the API of the gateway at url. That gateway
// must have DEV_LOGIN. Tickets sold in the sale are kept.
func Seed(ctx context.Context, url string, say func(format string, args ...any)) error {
	return seedAs(ctx, url, say, func(ctx context.Context, operator *crowd.Session) error {
		return operator.DevLogin(ctx, "operator", "admin")
	})
}

func seedAs(ctx context.Context, url string, say func(format string, args ...any), signIn func(context.Context, *crowd.Session) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	api := crowd.NewAPI(url, crowd.NewRecorder())
	defer api.Close()
	operator := api.NewSession()
	existing, err := operator.Call(ctx, crowd.StepEvent, http.MethodGet, "/api/v1/events/"+demoEvent, nil, nil)
	switch {
	case err != nil || existing.OK():
		return err
	case existing.Status != http.StatusNotFound:
		return fmt.Errorf("look for the demo sale: %d: %s", existing.Status, existing.Body)
	}
	if err := signIn(ctx, operator); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Hour)
	put, err := operator.Call(ctx, crowd.StepEvent, http.MethodPut, "/api/v1/admin/events/"+demoEvent, map[string]any{
		"title": "URR demo night", "artist": "The Placeholders", "venue": "Seoul Hall",
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(-time.Hour), "salesCloseAt": now.AddDate(0, 1, 0).Add(-time.Hour),
		"seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 4, "threshold": 100,
		"sections": []map[string]any{
			{"section": "A", "price": 165000, "rows": 10, "seatsPerRow": 20},
			{"section": "B", "price": 110000, "rows": 10, "seatsPerRow": 20},
			{"section": "C", "price": 55000, "rows": 10, "seatsPerRow": 20},
		},
	}, nil)
	switch {
	case err != nil:
		return err
	case !put.OK():
		return fmt.Errorf("create the demo sale: %d: %s", put.Status, put.Body)
	}
	say("%-16s seeded: 600 seats", "demo sale")
	return nil
}
