package roomstate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/loop"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

const (
	// refreshEvery is how often requested states are fetched while the stream is broken.
	refreshEvery   = time.Second
	refreshMax     = 100 // events per call, the limit of GetCounters
	refreshTimeout = 800 * time.Millisecond
	// silenceTimeout is how long a stream may send nothing. The vwr service sends a message every
	// second even without a change, so a replica that sends none hangs.
	silenceTimeout = 5 * time.Second
)

// Source provides the states of the waiting rooms. Outside tests it calls the vwr service.
type Source interface {
	WatchCounters(ctx context.Context, in *vwrv1.WatchCountersRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[vwrv1.WatchCountersResponse], error)
	GetCounters(ctx context.Context, in *vwrv1.GetCountersRequest, opts ...grpc.CallOption) (*vwrv1.GetCountersResponse, error)
}

// Watch keeps r up to date until ctx ends. It reopens a broken stream with back-off, and leaves a
// replica that has lost its store. In the meantime it fetches the states that callers of Get need
// each second, in one call for all known events and one for all unknown ones.
func (r *Rooms) Watch(ctx context.Context, src Source, log *slog.Logger) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.fetchRequested(ctx, src, log)
	}()
	defer func() { <-done }()
	var found *freshStream
	return loop.Follow(ctx, log, "waiting rooms", func(ctx context.Context) (received bool, err error) {
		defer r.lose()
		received, found, err = r.readStream(ctx, src, found)
		return received, err
	})
}

// readStream applies the messages of begun, or of a new stream if begun is nil. While the replica
// says that it is stalled, it looks for another one after each message, and returns that one's
// stream in found. If there is none, the stream stays, since another would not do better.
func (r *Rooms) readStream(ctx context.Context, src Source, begun *freshStream) (received bool, found *freshStream, err error) {
	open := func(read context.Context) (loop.Stream[*vwrv1.WatchCountersResponse], error) {
		if begun != nil {
			context.AfterFunc(read, begun.end)
			return begun, nil
		}
		return src.WatchCounters(read, &vwrv1.WatchCountersRequest{})
	}
	complete, unlisted := false, []string(nil)
	received, err = loop.Read(ctx, silenceTimeout, open, func(read context.Context, msg *vwrv1.WatchCountersResponse) error {
		r.applyCounters(msg.GetCounters())
		if msg.GetSnapshot() {
			complete, unlisted = true, r.activeRoomsMissingIn(msg.GetCounters())
			if !r.ready.Swap(true) {
				r.setHeard() // also of a stalled replica: else nothing would be in doubt any more
			}
		}
		if msg.GetStalled() {
			r.lose()
			if found = openFresh(ctx, src); found != nil {
				return errStalled
			}
			return nil
		}
		if !complete {
			return nil
		}
		if err := r.verify(read, src, unlisted); err != nil {
			return err
		}
		unlisted = nil
		if msg.GetSnapshot() {
			r.forgetEnded()
		}
		r.regain()
		return nil
	})
	return received, found, err
}

var errStalled = errors.New("the replica has lost its store, another one has not")

// freshStream is the stream of a replica that is not stalled, and its first message.
type freshStream struct {
	grpc.ServerStreamingClient[vwrv1.WatchCountersResponse]

	first *vwrv1.WatchCountersResponse // nil: already received
	end   context.CancelFunc
}

func (s *freshStream) Recv() (*vwrv1.WatchCountersResponse, error) {
	if msg := s.first; msg != nil {
		s.first = nil
		return msg, nil
	}
	return s.ServerStreamingClient.Recv() //nolint:wrapcheck // the stream's own
}

// freshTries is how many streams are opened to find a replica that is not stalled. Calls prefer
// replicas that serve only while these are at least half of all; else they take turns.
const freshTries = 3

// openFresh returns the stream of a replica that is not stalled, or nil if it finds none.
func openFresh(ctx context.Context, src Source) *freshStream {
	for range freshTries {
		if found := openUnlessStalled(ctx, src); found != nil {
			return found
		}
	}
	return nil
}

// openUnlessStalled opens a stream and returns it if its replica is not stalled, else nil.
func openUnlessStalled(ctx context.Context, src Source) *freshStream {
	ctx, end := context.WithCancel(ctx)
	late := time.AfterFunc(refreshTimeout, end)
	stream, err := src.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	if err == nil {
		var first *vwrv1.WatchCountersResponse
		if first, err = stream.Recv(); err == nil && !first.GetStalled() && late.Stop() {
			return &freshStream{stream, first, end}
		}
	}
	late.Stop()
	end()
	return nil
}

// verify fetches the rooms that are active here and missing in a snapshot. A replica lists the rooms
// that were active since it started. So a missing room may have been deactivated while the stream
// was broken, or just activated through another replica.
func (r *Rooms) verify(ctx context.Context, src Source, unlisted []string) error {
	for part := range slices.Chunk(unlisted, refreshMax) {
		if err := r.fetchRooms(ctx, src, part); err != nil {
			return err
		}
	}
	return nil
}

// fetchRequested fetches, each second while the states may be old, those that callers of Get need.
func (r *Rooms) fetchRequested(ctx context.Context, src Source, log *slog.Logger) {
	for loop.Sleep(ctx, refreshEvery) {
		silentFor.Set(r.silence().Seconds())
		if r.silence() > doubtAfter {
			r.lose()
		}
		if r.Connected() {
			continue
		}
		known, unknown := r.takeRequested()
		for _, ids := range [][]string{known, unknown} {
			if len(ids) == 0 {
				continue
			}
			if err := r.fetchRooms(ctx, src, ids); err != nil {
				log.DebugContext(ctx, "waiting room state not refreshed", "error", err.Error())
			}
		}
	}
}

// fetchRooms reads the state of at most refreshMax events from the vwr service's table. It
// deactivates rooms that no longer exist.
func (r *Rooms) fetchRooms(ctx context.Context, src Source, events []string) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	res, err := src.GetCounters(ctx, &vwrv1.GetCountersRequest{EventIds: events})
	if err != nil {
		return err
	}
	missing := make(map[string]bool, len(events))
	for _, id := range events {
		missing[id] = true
	}
	for _, c := range res.GetCounters() {
		delete(missing, c.GetEventId())
	}
	r.applyCounters(res.GetCounters())
	r.deactivate(missing)
	return nil
}
