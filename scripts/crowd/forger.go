package crowd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"urr.guru/pkg/loop"
)

// stolenPasses has genuine passes of honest visitors, which forgers try to use.
type stolenPasses struct {
	mu          sync.Mutex
	passes      []stolenPass
	entryTokens []string
}

type stolenPass struct{ token, ticket, requestID string }

// maxStolenPasses is the most passes, and the most entry tokens, that are kept.
const maxStolenPasses = 64

func (l *stolenPasses) addPass(token, ticket, requestID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.passes) < maxStolenPasses && token != "" {
		l.passes = append(l.passes, stolenPass{token, ticket, requestID})
	}
}

func (l *stolenPasses) addEntryToken(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token == "" {
		return
	}
	if len(l.entryTokens) == maxStolenPasses {
		l.entryTokens = l.entryTokens[1:] // drop the oldest, which expires first
	}
	l.entryTokens = append(l.entryTokens, token)
}

func (l *stolenPasses) pick() (pass stolenPass, entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.passes) > 0 {
		pass = l.passes[len(l.passes)-1]
	}
	if len(l.entryTokens) > 0 {
		entry = l.entryTokens[len(l.entryTokens)-1]
	}
	return pass, entry
}

// tryForgeries makes each kind of attempt to get past the waiting rooms without a valid pass.
func (v *visitor) tryForgeries(ctx context.Context) {
	if !loop.Sleep(ctx, jitter(v.rng, 20*time.Second)) || v.session.DevLogin(ctx, v.userID) != nil {
		return
	}
	event := v.crowd.sale.EventID
	pass, entry := v.crowd.stolenPasses.pick()
	seats := "/api/v1/seats/" + event
	v.tryForged(ctx, "no pass at all", http.MethodGet, seats, nil)
	v.tryForged(ctx, "a claim of the edge's", http.MethodGet, seats, map[string]string{"X-CloudFront-Verified": "true"})
	v.tryForged(ctx, "an encoded path", http.MethodGet, "/api/v1/%73eats/"+event, nil)
	v.tryForged(ctx, "a doubled slash", http.MethodGet, "/api//seats/"+event, nil)
	for forgery, token := range map[string]string{
		"an own entry token":      v.selfSignedToken(jwt.SigningMethodHS256, "entry"),
		"an unsigned entry token": v.selfSignedToken(jwt.SigningMethodNone, "entry"),
		"a stolen entry token":    entry,
		"a tampered entry token":  tamper(entry),
		"a pass as entry token":   pass.token,
	} {
		if token != "" {
			v.tryForged(ctx, forgery, http.MethodGet, seats, map[string]string{"x-queue-entry-token": token})
			v.tryForged(ctx, forgery+", to buy", http.MethodPost, "/api/v1/seats/reserve", map[string]string{"x-queue-entry-token": token})
		}
	}
	for forgery, token := range map[string]string{
		"no tier-1 token":          "",
		"an own tier-1 token":      v.selfSignedToken(jwt.SigningMethodHS256, "vwr"),
		"an unsigned tier-1 token": v.selfSignedToken(jwt.SigningMethodNone, "vwr"),
		"a stolen tier-1 token":    pass.token,
		"a tampered tier-1 token":  tamper(pass.token),
	} {
		v.joinWithForeignPass(ctx, v.session.Fork(), forgery, token)
	}
	v.tamperTicket(ctx, pass)
}

// sharePass copies the visitor's browser to a friend, who signs in as another user. The friend must
// not get in, since the position belongs to the first user.
func (v *visitor) sharePass(ctx context.Context) {
	friend := v.session.Fork()
	delete(friend.cookies, "urr-session")
	delete(friend.cookies, "urr-entry-token")
	token := friend.cookies["urr-vwr-token"]
	if token == "" || friend.DevLogin(ctx, "friend-of-"+v.userID) != nil {
		return
	}
	v.joinWithForeignPass(ctx, friend, "a shared pass", token)
	stranger := v.crowd.api.NewSession()
	if stranger.DevLogin(ctx, "stranger-to-"+v.userID) == nil {
		v.joinWithForeignPass(ctx, stranger, "a shared link", token)
	}
}

// tryForged sends a request with a forged pass, and records a 2xx response as a violation.
func (v *visitor) tryForged(ctx context.Context, forgery, method, path string, header map[string]string) {
	v.crowd.tally.ForgedTried.Add(1)
	var body any
	if method == http.MethodPost {
		body = map[string]any{"eventId": v.crowd.sale.EventID, "seatIds": []string{"A-1-1"}}
	}
	ans, err := v.session.Call(ctx, StepForged, method, path, body, header)
	if err == nil && ans.OK() {
		v.crowd.tally.addForgedIn(forgery)
	}
}

// joinWithForeignPass tries to join the line with another visitor's pass; "" stands for none.
func (v *visitor) joinWithForeignPass(ctx context.Context, s *Session, forgery, token string) {
	v.crowd.tally.ForgedTried.Add(1)
	if token != "" {
		s.cookies["urr-vwr-token"] = token
	}
	ans, err := s.Call(ctx, StepForged, http.MethodPost, "/api/v1/queue/check/"+v.crowd.sale.EventID, map[string]any{}, nil)
	if err == nil && ans.OK() {
		v.crowd.tally.addForgedIn(forgery)
	}
}

// tamperTicket tries to pass the waiting room with a ticket in which one bit is changed.
func (v *visitor) tamperTicket(ctx context.Context, pass stolenPass) {
	if pass.ticket == "" {
		return
	}
	v.crowd.tally.ForgedTried.Add(1)
	path := "/vwr-api/vwr/check/" + v.crowd.sale.EventID + "/" + pass.requestID
	ans, err := v.session.Call(ctx, StepForged, http.MethodGet, path, nil, map[string]string{"x-vwr-ticket": tamper(pass.ticket)})
	var c checkedPosition
	if err == nil && ans.OK() && json.Unmarshal(ans.Body, &c) == nil && c.Admitted {
		v.crowd.tally.addForgedIn("a tampered ticket")
	}
}

// selfSignedToken returns a token with valid claims, signed with the forger's own key.
func (v *visitor) selfSignedToken(method jwt.SigningMethod, aud string) string {
	now := time.Now()
	claims := jwt.MapClaims{
		"sub": v.crowd.sale.EventID, "uid": v.userID, "aud": aud, "tier": 1, "pos": 1, "act": now.Add(-time.Hour).UnixMicro(),
		"jti": "00000000-0000-7000-8000-000000000000", "epoch": now.UnixMicro(), "end": now.Add(time.Hour).UnixMilli(),
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	t := jwt.NewWithClaims(method, claims)
	t.Header["kid"] = "1"
	var key any = []byte("a forger's own key of 32 bytes....")
	if method == jwt.SigningMethodNone {
		key = jwt.UnsafeAllowNoneSignatureType
	}
	s, err := t.SignedString(key)
	if err != nil {
		return ""
	}
	return s
}

// tamper flips one bit in the middle of a signed token's payload and keeps the signature.
func tamper(token string) string {
	payload := token
	before, after := "", ""
	if p := strings.Split(token, "."); len(p) == 3 {
		before, payload, after = p[0]+".", p[1], "."+p[2]
	}
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || len(b) == 0 {
		return ""
	}
	b[len(b)/2] ^= 1
	return before + base64.RawURLEncoding.EncodeToString(b) + after
}
