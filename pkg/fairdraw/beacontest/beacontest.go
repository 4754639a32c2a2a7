// Package beacontest is a beacon like drand's, but with a single key, for development and tests. It
// has drand's HTTP interface. Whoever knows its secret knows every future value, so no draw of real
// people may use it.
package beacontest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cloudflare/circl/sign/bls"

	"urr.guru/pkg/fairdraw/beacon"
)

const beaconID = "urr-development"

// Options configure a Beacon; zero values mean the defaults.
type Options struct {
	Scheme  string           // default beacon.SchemeG1
	Genesis time.Time        // time of round 1, whole seconds; default 2026-01-01T00:00:00Z
	Period  time.Duration    // whole seconds; default 3 s
	Now     func() time.Time // default time.Now
}

// Beacon publishes a round each period. Its key, and so the value of every round, follows from the
// secret and the scheme alone. It is safe for concurrent use.
type Beacon struct {
	info beacon.Info
	sign func(message []byte) []byte
	now  func() time.Time
	mux  *http.ServeMux
}

// New makes a beacon from a secret of at least 32 bytes.
func New(secret []byte, o Options) (*Beacon, error) {
	o.Scheme, o.Period = cmp.Or(o.Scheme, beacon.SchemeG1), cmp.Or(o.Period, 3*time.Second)
	o.Genesis = cmp.Or(o.Genesis, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Period < time.Second || o.Period%time.Second != 0 || o.Genesis.Nanosecond() != 0 {
		return nil, errors.New("beacontest: genesis and period must be whole seconds")
	}
	b := &Beacon{now: o.Now, mux: http.NewServeMux()}
	var public []byte
	var err error
	switch o.Scheme {
	case beacon.SchemeG1:
		public, b.sign, err = deriveKeys[bls.KeyG2SigG1](secret)
	case beacon.SchemeG2:
		public, b.sign, err = deriveKeys[bls.KeyG1SigG2](secret)
	default:
		err = fmt.Errorf("beacontest: scheme %q is not supported", o.Scheme)
	}
	if err != nil {
		return nil, err
	}
	b.info = beacon.Info{
		PublicKey: hex.EncodeToString(public), Period: int64(o.Period / time.Second), Genesis: o.Genesis.Unix(), Scheme: o.Scheme,
	}
	group := sha256.Sum256(append([]byte(beaconID), public...))
	b.info.GroupHash, b.info.Metadata.BeaconID = hex.EncodeToString(group[:]), beaconID
	b.info.Hash = b.info.Chain().Hash()
	b.registerRoutes()
	return b, nil
}

func deriveKeys[K bls.KeyGroup](secret []byte) (public []byte, sign func([]byte) []byte, err error) {
	private, err := bls.KeyGen[K](secret, nil, []byte(beaconID))
	if err != nil {
		return nil, nil, fmt.Errorf("beacontest: %w", err)
	}
	if public, err = private.PublicKey().MarshalBinary(); err != nil {
		return nil, nil, fmt.Errorf("beacontest: %w", err)
	}
	return public, func(message []byte) []byte { return bls.Sign(private, message) }, nil
}

func (b *Beacon) Chain() beacon.Chain { return b.info.Chain() }

// Round computes the round with a number (from 1), even a future one.
func (b *Beacon) Round(round uint64) beacon.Round {
	message := sha256.Sum256(binary.BigEndian.AppendUint64(nil, round))
	signature := b.sign(message[:])
	value := sha256.Sum256(signature)
	return beacon.Round{Round: round, Randomness: hex.EncodeToString(value[:]), Signature: hex.EncodeToString(signature)}
}

// Latest returns the number of the last published round, 0 before the first.
func (b *Beacon) Latest() uint64 {
	// FirstAt(now) may be the round published right now; after that moment it is the next one.
	return b.Chain().FirstAt(b.now().Add(time.Nanosecond)) - 1
}

// ServeHTTP serves /chains, /info, /public/latest and /public/{round}, the last three also under
// /{chainHash}. It answers 404 for a round that is not published yet.
func (b *Beacon) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

func (b *Beacon) registerRoutes() {
	b.mux.HandleFunc("GET /chains", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, []string{b.info.Hash}) })
	for _, prefix := range []string{"", "/" + b.info.Hash} {
		b.mux.HandleFunc("GET "+prefix+"/info", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, b.info) })
		b.mux.HandleFunc("GET "+prefix+"/public/{round}", b.servePublic)
	}
}

func (b *Beacon) servePublic(w http.ResponseWriter, r *http.Request) {
	latest := b.Latest()
	round := latest
	if requested := r.PathValue("round"); requested != "latest" {
		var err error
		if round, err = strconv.ParseUint(requested, 10, 64); err != nil {
			http.Error(w, "a round is a number", http.StatusBadRequest)
			return
		}
	}
	if round < 1 || round > latest {
		http.Error(w, "this round is not published yet", http.StatusNotFound)
		return
	}
	writeJSON(w, b.Round(round))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A failed write means that the client has gone.
	_ = json.NewEncoder(w).Encode(v)
}
