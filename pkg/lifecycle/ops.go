package lifecycle

import (
	"errors"
	"net/http"
	"net/http/pprof"
	"time"

	"urr.guru/pkg/telemetry"
)

// startOps starts the HTTP server for probes, metrics and, if enabled, profiles. It serves from
// before the process is ready until everything else has ended.
func (a *App) startOps() (stop func() error, err error) {
	if a.cfg.OpsAddr == "" {
		return func() error { return nil }, nil
	}
	l, err := a.Listen("OPS_ADDR", a.cfg.OpsAddr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /readyz", a.ready)
	mux.Handle("GET /metrics", telemetry.MetricsHandler())
	if a.cfg.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("ops server failed", "error", err.Error())
		}
	}()
	return func() error {
		err := srv.Close()
		<-done
		return err
	}, nil
}
