package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/live"
	"urr.guru/services/gateway/internal/sse"
)

// liveLife is how long a stream may last. So streams of vanished clients end, and after a rollout
// the streams are spread over all gateways again.
const liveLife = 10 * time.Minute

// LiveHandlers serves the live figures of events.
type LiveHandlers struct {
	Hub    *live.Hub
	Tokens *identity.Verifier
}

// StreamFigures streams the live figures (sales, waiting visitors) of an event until the client
// leaves, the session ends, or the process stops.
func (h *LiveHandlers) StreamFigures(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	listener, err := h.Hub.Listen(q.EventInPath(), q.Caller()) //nolint:contextcheck // a feed outlives its first listener
	if err != nil {
		return err
	}
	defer listener.Leave()
	stream, err := sse.Open(w)
	if err != nil || r.Method == http.MethodHead {
		return nil // after an error the client has left
	}
	ctx, cancel := context.WithTimeout(r.Context(), liveLife)
	defer cancel()
	heartbeat := time.NewTicker(sse.HeartbeatEvery)
	defer heartbeat.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-h.Hub.Done():
			return nil
		case figures := <-listener.C:
			if ended := sessionEnded(h.Tokens, q); ended != nil {
				_ = stream.Write(ended) // the stream ends in any case
				return nil
			}
			heartbeat.Reset(sse.HeartbeatEvery)
			err = stream.Write(sse.UnnamedEvent(figures))
		case <-heartbeat.C:
			err = stream.Heartbeat()
		}
	}
	return nil
}

// sessionEnded returns the last frame of a stream whose session has expired or was revoked; nil if
// the session is still valid.
func sessionEnded(tokens *identity.Verifier, q *edge.Request) *sse.Frame {
	c, err := tokens.Session(q.Header)
	if err == nil && c.ID == q.Session.ID {
		return nil
	}
	if err == nil {
		err = errs.ErrSessionInvalid
	}
	return endEvent(err)
}

// endEvent returns the last frame of a stream that ends with an error: it has the error's code.
func endEvent(err error) *sse.Frame {
	data, _ := json.Marshal(map[string]string{"code": errs.From(err).Reason}) // strings always marshal
	return sse.Event("end", "", data)
}
