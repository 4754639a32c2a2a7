package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/vwr/internal/queue"
	"urr.guru/services/vwr/internal/room"
)

// line answers GetLoad as queue does; its other methods are not there.
type line struct {
	queuev1.UnimplementedQueueServiceServer
}

func (line) GetLoad(_ context.Context, req *queuev1.GetLoadRequest) (*queuev1.GetLoadResponse, error) {
	if req.GetEventId() != "demo" {
		return nil, errs.ErrUnavailable
	}
	return &queuev1.GetLoadResponse{Waiting: 3, Active: 5, Parked: 7, Arrived: 11}, nil
}

// listen serves queue on loopback, which lets vwr in with its key.
func listen(t *testing.T, key config.Secret) string {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"vwr": key, "gateway": key}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	queuev1.RegisterQueueServiceServer(grpc.ServiceRegistrar(s), line{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(s.Stop(ctx), <-done); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestLoad(t *testing.T) {
	t.Parallel()
	const key = config.Secret("the key of the pair vwr → queue!!")
	c, err := queue.New(rpc.Peer{Addr: listen(t, key), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := c.Load(ctx, "demo")
	if want := (room.Load{Waiting: 3, Active: 5, Arrived: 11}); err != nil || got != want {
		t.Errorf("load %+v, %v, want %+v", got, err, want)
	}
	if _, err := c.Load(ctx, "other"); !errors.Is(err, errs.ErrUnavailable) {
		t.Errorf("a queue that fails: %v", err)
	}
}

func TestLoadWithoutQueue(t *testing.T) {
	t.Parallel()
	c, err := queue.New(rpc.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(t.Context(), "demo"); !errors.Is(err, errs.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := queue.New(rpc.Peer{Addr: "q:1", Key: "short"}); err == nil {
		t.Error("a short key is taken")
	}
}
