package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/seats"
	"urr.guru/services/gateway/internal/sse"
)

// ChangeHandlers serves the streams that tell browsers which seats of an event were taken or freed.
type ChangeHandlers struct {
	Hub    *seats.Hub
	Tokens *identity.Verifier
	Now    func() time.Time
}

// StreamChanges sends the changes of an event's seats until the client leaves, its entry token
// expires, its session ends, or the process stops. A client that reconnects sends the version of
// the seats that it has.
func (h *ChangeHandlers) StreamChanges(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	reader, err := h.Hub.Listen(q.Event, q.Caller(), q.Header.Get(identity.LastEventHeader)) //nolint:contextcheck // a feed outlives its first reader
	if err != nil {
		return err
	}
	defer reader.Leave()
	ctx, cancel := context.WithTimeout(r.Context(), q.Entry.Expiry().Sub(h.Now()))
	defer cancel()
	if err := reader.Wait(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = errs.ErrUnavailable.Wrap(err)
		}
		return err
	}
	stream, err := sse.OpenCompressed(w, q.Header)
	if err != nil || r.Method == http.MethodHead {
		return nil // after an error the client has left
	}
	if last := h.follow(ctx, stream, reader, q); last != nil {
		_ = stream.Write(last) // the stream ends in any case
	}
	stream.End()
	return nil
}

// follow sends the changes until the stream must end. It returns the last frame, nil for none.
func (h *ChangeHandlers) follow(ctx context.Context, stream *sse.Stream, reader *seats.Reader, q *edge.Request) *sse.Frame {
	heartbeat := time.NewTicker(sse.HeartbeatEvery)
	defer heartbeat.Stop()
	for {
		frame, changed, err := reader.Take()
		if err != nil {
			return endEvent(err)
		}
		if frame != nil {
			if ended := sessionEnded(h.Tokens, q); ended != nil {
				return ended
			}
			heartbeat.Reset(sse.HeartbeatEvery)
			if stream.Write(frame) != nil {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.Hub.Done():
			return nil
		case <-changed:
		case <-heartbeat.C:
			if stream.Heartbeat() != nil {
				return nil
			}
		}
	}
}
