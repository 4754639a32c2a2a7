package lifecycle

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/config"
	"urr.guru/pkg/loop"
)

// secretsEvery is the interval at which secret files are read. Kubernetes updates a changed Secret
// within about a minute; reading small files costs little.
const secretsEvery = time.Second

var (
	secretReloads = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_secret_reloads_total", Help: "Contents of a secret's file that were applied while the process ran.",
	}, []string{"variable"})
	secretRefused = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_secret_refused", Help: "1 while a secret's file has unusable content and an older content is in use.",
	}, []string{"variable"})
)

// FollowSecrets re-reads the files of cfg's secrets while the process runs. When a file has changed
// it calls apply with the whole validated configuration, and apply makes the process use the new
// secret. The certificate for calls needs no apply: the App renews it. Content that the validation or
// apply refuses changes nothing: the refusal is logged once, and a metric shows it as long as it
// lasts. Each file is handled separately, so that a wrong file does not delay the others.
//
// apply is called by one goroutine. It must apply the configuration completely or not at all. Calls
// in progress may finish with the old secrets.
func FollowSecrets[C any](a *App, cfg *C, apply func(next *C) error) {
	applyAll := func(next *C) error {
		if err := a.renewIdentity(next); err != nil {
			return err
		}
		return apply(next)
	}
	f := &secretFollower[C]{apply: applyAll, log: a.log, inForce: config.SecretContents(cfg)}
	for _, file := range config.SecretFiles[C]() {
		f.files = append(f.files, &secretFile{File: file})
		secretReloads.WithLabelValues(file.Variable)
		secretRefused.WithLabelValues(file.Variable)
	}
	if len(f.files) > 0 {
		a.Go("secrets", f.run)
	}
}

func (a *App) renewIdentity(next any) error {
	if c, ok := next.(embedder); ok && a.identity != nil {
		return a.identity.Renew(c.lifecycle().TLS)
	}
	return nil
}

type secretFollower[C any] struct {
	files   []*secretFile
	apply   func(next *C) error
	log     *slog.Logger
	inForce map[string]config.Secret // contents in use, by variable
}

type secretFile struct {
	config.File

	lastRead  fileReading
	lastError string // the last error that was logged
}

// fileReading is what was read of a file at one moment: its content, or the error.
type fileReading struct {
	content config.Secret
	failure string
}

func (f *secretFollower[C]) run(ctx context.Context) error {
	return loop.Every(ctx, secretsEvery, func(ctx context.Context) {
		for _, file := range f.files {
			f.checkFile(ctx, file)
		}
	})
}

// checkFile reads one file and applies changed content. Content counts only when it was read twice,
// a second apart: a file that is being written may be incomplete, and part of a set of keys may
// look like a whole one.
func (f *secretFollower[C]) checkFile(ctx context.Context, file *secretFile) {
	var now fileReading
	var err error
	if now.content, err = file.Read(); err != nil {
		now.failure = err.Error()
	}
	settled := now == file.lastRead
	file.lastRead = now
	switch {
	case !settled:
	case err != nil:
		f.reportRefusal(ctx, file, err)
	case now.content == f.inForce[file.Variable]:
		f.clearRefusal(file)
	default:
		f.applyContent(ctx, file, now.content)
	}
}

func (f *secretFollower[C]) applyContent(ctx context.Context, file *secretFile, content config.Secret) {
	old := f.inForce[file.Variable]
	f.inForce[file.Variable] = content
	next, err := config.LoadWith[C](ctx, f.inForce)
	if err == nil {
		err = f.apply(next)
	}
	if err != nil {
		f.inForce[file.Variable] = old
		f.reportRefusal(ctx, file, err)
		return
	}
	f.clearRefusal(file)
	secretReloads.WithLabelValues(file.Variable).Inc()
	f.log.InfoContext(ctx, "secret changed", "variable", file.Variable, "file", file.Path)
}

func (f *secretFollower[C]) clearRefusal(file *secretFile) {
	file.lastError = ""
	secretRefused.WithLabelValues(file.Variable).Set(0)
}

func (f *secretFollower[C]) reportRefusal(ctx context.Context, file *secretFile, err error) {
	secretRefused.WithLabelValues(file.Variable).Set(1)
	if file.lastError == err.Error() {
		return
	}
	file.lastError = err.Error()
	f.log.ErrorContext(ctx, "secret refused, the old one stays in use", "variable", file.Variable, "file", file.Path, "error", file.lastError)
}
