package draw

import (
	"context"
	"errors"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
)

// Open checks that a new draw's beacon is alive, and returns the final terms and the seed's nonce.
// It fails with errs.ErrInvalidRequest for unusable terms or an unusable chain, and with
// errs.ErrBeaconUnavailable if no source shows a living beacon: the draw might never end.
func (d *Drawer) Open(ctx context.Context, c fairdraw.Commitment) (text []byte, nonce fairdraw.Nonce, err error) {
	if c.Beacon != nil {
		err := d.beacons.Check(ctx, c.Beacon.Chain, d.opts.Now())
		switch {
		case errors.Is(err, beacon.ErrChain):
			return nil, nonce, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "beacon", Message: err.Error()})
		case err != nil:
			return nil, nonce, errs.ErrBeaconUnavailable.Wrap(err)
		}
	}
	if text, nonce, err = d.keys.Keys().Open(&c); errors.Is(err, fairdraw.ErrNoKeys) {
		return nil, nonce, errs.ErrUnavailable.Wrap(err)
	} else if err != nil {
		return nil, nonce, errs.ErrInvalidRequest.Wrap(err)
	}
	return text, nonce, nil
}
