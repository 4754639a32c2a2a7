package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// sessionCookie has the session's JWT.
const sessionCookie = "urr-session"

// The baseline's keys in Redis, as its own queue would have them.
const (
	plainWaiting   = "{bench-plain}:waiting" // user → time of arrival
	plainSeen      = "{bench-plain}:seen"    // user → time of the last poll
	plainInside    = "{bench-plain}:inside"
	plainThreshold = "{bench-plain}:threshold"
)

// plainEdge configures servePlainEdge.
type plainEdge struct {
	Line    string `json:"line"`    // address of servePlainLine
	Session string `json:"session"` // the secrets of sessions
}

// plainPlace is the response of servePlainEdge.
type plainPlace struct {
	Status        string `json:"status"`
	Queued        bool   `json:"queued"`
	Position      int64  `json:"position"`
	PeopleAhead   int64  `json:"peopleAhead"`
	PeopleBehind  int64  `json:"peopleBehind"`
	EstimatedWait int64  `json:"estimatedWait"`
	NextPoll      int64  `json:"nextPoll"`
	CurrentUsers  int64  `json:"currentUsers"`
	Threshold     int64  `json:"threshold"`
	QueueSize     int64  `json:"queueSize"`
}

// servePlainEdge serves polls of a line without the means that make the gateway fast: each request
// parses the session's JWT and makes one RPC. It has no limits, no waiting room and no tickets.
func servePlainEdge(ctx context.Context, in io.Reader, out io.Writer) error {
	cfg, in, err := configured[plainEdge](in)
	if err != nil {
		return err
	}
	keys, err := token.ParseKeySet(config.Secret(cfg.Session))
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(cfg.Line, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to the line: %w", err)
	}
	h := &plainHandler{keys: keys, line: queuev1.NewQueueServiceClient(conn)}
	return errors.Join(serveHTTP(ctx, in, out, h), conn.Close())
}

type plainHandler struct {
	keys token.KeySet
	line queuev1.QueueServiceClient
}

// ServeHTTP implements http.Handler.
func (h *plainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session, err := sessionOf(h.keys, r.Cookies())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	res, err := h.line.Status(ctx, &queuev1.LineRequest{Items: []*queuev1.LineItem{{Ticket: session.UserID}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	p := res.GetResults()[0].GetPlace()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(plainPlace{ // the client may have disconnected
		Status: p.GetStatus(), Queued: p.GetQueued(), Position: p.GetPosition(), PeopleAhead: p.GetPeopleAhead(), PeopleBehind: p.GetPeopleBehind(),
		EstimatedWait: p.GetEstimatedWait(), NextPoll: p.GetNextPoll(), CurrentUsers: p.GetCurrentUsers(), Threshold: p.GetThreshold(), QueueSize: p.GetQueueSize(),
	})
}

// sessionOf verifies the session's cookie.
func sessionOf(keys token.KeySet, cookies []*http.Cookie) (*claims.Session, error) {
	for _, c := range cookies {
		if c.Name != sessionCookie {
			continue
		}
		session := new(claims.Session)
		return session, keys.Verify(c.Value, session, claims.AudienceSession, time.Now())
	}
	return nil, http.ErrNoCookie
}

// plainLine configures servePlainLine.
type plainLine struct {
	Redis string `json:"redis"`
	DB    int    `json:"db"`
}

// servePlainLine answers each poll with single commands of Redis, the same reads that queue makes.
func servePlainLine(ctx context.Context, in io.Reader, out io.Writer) error {
	cfg, in, err := configured[plainLine](in)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: cfg.Redis, DB: cfg.DB})
	l, err := listen(ctx, out)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	queuev1.RegisterQueueServiceServer(s, &plainServer{rdb: rdb})
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	_, _ = io.Copy(io.Discard, in)
	s.Stop()
	return errors.Join(<-failed, rdb.Close())
}

type plainServer struct {
	queuev1.UnimplementedQueueServiceServer

	rdb *redis.Client
}

// Status implements queuev1.QueueServiceServer for one visitor, who is named by the ticket.
func (s *plainServer) Status(ctx context.Context, req *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	user := req.GetItems()[0].GetTicket()
	ahead, err := s.rdb.ZRank(ctx, plainWaiting, user).Result()
	if err != nil {
		return nil, err
	}
	size, err := s.rdb.ZCard(ctx, plainWaiting).Result()
	if err != nil {
		return nil, err
	}
	inside, err := s.rdb.ZCard(ctx, plainInside).Result()
	if err != nil {
		return nil, err
	}
	threshold, err := s.rdb.Get(ctx, plainThreshold).Int64()
	if err != nil {
		return nil, err
	}
	if err := s.rdb.ZAdd(ctx, plainSeen, redis.Z{Score: float64(time.Now().UnixMilli()), Member: user}).Err(); err != nil {
		return nil, err
	}
	return &queuev1.LineResponse{Results: []*queuev1.LineResult{{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{
		Status: "queued", Queued: true, Position: ahead + 1, PeopleAhead: ahead, PeopleBehind: size - ahead - 1, NextPoll: 3, CurrentUsers: inside,
		Threshold: threshold, QueueSize: size,
	}}}}}, nil
}

// besidePlain starts both processes, whose line has the same visitors.
func besidePlain(ctx context.Context, w *world, _ poll) (*baseline, error) {
	wiring := w.platform.Wiring()
	if err := w.waitPlainly(ctx, config.Secret(wiring.Secrets.Session)); err != nil {
		return nil, err
	}
	line, err := startChild(ctx, plainLineArgument, plainLine{Redis: wiring.RedisAddrs[0], DB: wiring.RedisDB})
	if err != nil {
		return nil, err
	}
	edge, err := startChild(ctx, plainEdgeArgument, plainEdge{Line: line.addr, Session: wiring.Secrets.Session})
	if err != nil {
		return nil, errors.Join(err, line.close())
	}
	return &baseline{what: "per poll one RPC, single commands of Redis and a parsed JWT", servers: []*child{edge, line}}, nil
}

// waitPlainly puts the visitors into the line of servePlainLine.
func (w *world) waitPlainly(ctx context.Context, secret config.Secret) error {
	keys, err := token.ParseKeySet(secret)
	if err != nil {
		return err
	}
	members := make([]redis.Z, len(w.visitors))
	for i, v := range w.visitors {
		cookies, err := http.ParseCookie(v.cookies)
		if err != nil {
			return fmt.Errorf("read a visitor's cookies: %w", err)
		}
		session, err := sessionOf(keys, cookies)
		if err != nil {
			return fmt.Errorf("read a visitor's session: %w", err)
		}
		members[i] = redis.Z{Score: float64(i + 1), Member: session.UserID}
	}
	rdb := w.platform.Redis()
	return errors.Join(rdb.ZAdd(ctx, plainWaiting, members...).Err(), rdb.Set(ctx, plainThreshold, 0, 0).Err())
}
