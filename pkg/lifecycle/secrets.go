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

// secretsEvery is how often files of secrets are read. The kubelet brings a changed Secret within a
// minute or so; reading small files from memory costs nothing beside it.
const secretsEvery = time.Second

var (
	secretReloads = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_secret_reloads_total", Help: "Contents of a secret's file that came into force while the process ran.",
	}, []string{"variable"})
	secretRefused = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_secret_refused", Help: "1 while a secret's file holds what cannot be used and an older content is in force.",
	}, []string{"variable"})
)

// FollowSecrets reads the files that cfg's secrets came from again while the process runs. A
// changed content comes into force through apply, which gets the whole configuration with it,
// validated. What is refused, by the validation or by apply, changes nothing: it is logged once,
// and shown by a metric as long as it lasts. Each file is judged by itself, so that one that is
// wrong holds up no other.
//
// apply is called by one goroutine. It must take a content as a whole or not at all, and let
// whoever uses it at that moment finish with the old one.
func FollowSecrets[C any](a *App, cfg *C, apply func(next *C) error) {
	f := &follower[C]{apply: apply, log: a.log, inForce: config.Contents(cfg)}
	for _, file := range config.Files[C]() {
		f.files = append(f.files, &secretFile{File: file})
		secretReloads.WithLabelValues(file.Variable)
		secretRefused.WithLabelValues(file.Variable)
	}
	if len(f.files) > 0 {
		a.Go("secrets", f.run)
	}
}

type follower[C any] struct {
	files   []*secretFile
	apply   func(next *C) error
	log     *slog.Logger
	inForce map[string]config.Secret // by variable
}

type secretFile struct {
	config.File

	seen reading
	said string // what was logged last as wrong
}

// reading is what a file held at one moment.
type reading struct {
	content config.Secret
	failure string
}

func (f *follower[C]) run(ctx context.Context) error {
	return loop.Every(ctx, secretsEvery, func(ctx context.Context) {
		for _, file := range f.files {
			f.look(ctx, file)
		}
	})
}

// look reads one file. What it holds counts when two rounds have found the same: a file that is
// written in place may be half written, and half of a set may look whole.
func (f *follower[C]) look(ctx context.Context, file *secretFile) {
	var now reading
	var err error
	if now.content, err = file.Read(); err != nil {
		now.failure = err.Error()
	}
	settled := now == file.seen
	file.seen = now
	switch {
	case !settled:
	case err != nil:
		f.refuse(ctx, file, err)
	case now.content == f.inForce[file.Variable]:
		f.accept(file)
	default:
		f.change(ctx, file, now.content)
	}
}

// change brings a content into force, with those of the other files as they are.
func (f *follower[C]) change(ctx context.Context, file *secretFile, content config.Secret) {
	old := f.inForce[file.Variable]
	f.inForce[file.Variable] = content
	next, err := config.LoadWith[C](ctx, f.inForce)
	if err == nil {
		err = f.apply(next)
	}
	if err != nil {
		f.inForce[file.Variable] = old
		f.refuse(ctx, file, err)
		return
	}
	f.accept(file)
	secretReloads.WithLabelValues(file.Variable).Inc()
	f.log.InfoContext(ctx, "secret changed", "variable", file.Variable, "file", file.Path)
}

func (f *follower[C]) accept(file *secretFile) {
	file.said = ""
	secretRefused.WithLabelValues(file.Variable).Set(0)
}

func (f *follower[C]) refuse(ctx context.Context, file *secretFile, err error) {
	secretRefused.WithLabelValues(file.Variable).Set(1)
	if file.said == err.Error() {
		return
	}
	file.said = err.Error()
	f.log.ErrorContext(ctx, "secret refused, the old one stays", "variable", file.Variable, "file", file.Path, "error", file.said)
}
