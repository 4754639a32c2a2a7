package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/text"
)

// errNoKeys means that no keys are configured with which receipts could be signed.
var errNoKeys = errors.New("no keys to sign receipts with")

// checkNew returns the invalid fields of a new promotion.
func (s *PromotionService) checkNew(p *promotion.Promotion, beacon *fairdraw.Beacon) []errs.Field {
	fields := append(checkTimes(p), p.Expected.Check()...)
	if !text.HasVisible(p.Title) {
		fields = append(fields, errs.Field{Path: "title", Message: "must have a visible character"})
	}
	if p.EventType == promotion.Lottery {
		if p.DropRejected {
			fields = append(fields, errs.Field{Path: "recordRejected", Message: "is for first come only"})
		}
		return append(fields, s.checkLottery(p, beacon)...)
	}
	for _, field := range []struct {
		path string
		set  bool
	}{{"lotteryCutoffAt", p.LotteryCutoffAt != 0}, {"announcedAt", p.AnnouncedAt != 0}, {"beacon", beacon != nil}} {
		if field.set {
			fields = append(fields, errs.Field{Path: field.path, Message: "is for lotteries only"})
		}
	}
	return fields
}

func checkTimes(p *promotion.Promotion) []errs.Field {
	switch {
	case p.ClosesAt <= p.OpensAt:
		return []errs.Field{{Path: "closesAt", Message: "must be after opensAt"}}
	case p.ClosesAt-p.OpensAt > maxDuration.Milliseconds():
		return []errs.Field{{Path: "closesAt", Message: "must be within a year of opensAt"}}
	default:
		return nil
	}
}

func (s *PromotionService) checkLottery(p *promotion.Promotion, beacon *fairdraw.Beacon) []errs.Field {
	var fields []errs.Field
	if p.LotteryCutoffAt != p.ClosesAt {
		fields = append(fields, errs.Field{Path: "lotteryCutoffAt", Message: "must be closesAt"})
	}
	if p.ClosesAt <= s.now().UnixMilli() {
		fields = append(fields, errs.Field{Path: "closesAt", Message: "must be in the future"})
	}
	var delay time.Duration
	if beacon != nil {
		if err := beacon.Validate(); err != nil {
			return append(fields, errs.Field{Path: "beacon", Message: err.Error()})
		}
		least, most := max(int64(s.opts.MinDelay/time.Second), beacon.Period), int64(maxDelay/time.Second)
		if beacon.DelaySeconds < least || beacon.DelaySeconds > most {
			return append(fields, errs.Field{Path: "beacon.delaySeconds", Message: fmt.Sprintf("must be %d–%d", least, most)})
		}
		delay = time.Duration(beacon.DelaySeconds) * time.Second
	}
	switch least := p.LotteryCutoffAt + (delay + s.opts.Lead).Milliseconds(); {
	case p.AnnouncedAt < least:
		earliest := time.UnixMilli(least).UTC().Format("2006-01-02T15:04:05.000Z")
		fields = append(fields, errs.Field{Path: "announcedAt", Message: "must not be before " + earliest})
	case p.AnnouncedAt-p.ClosesAt > maxDuration.Milliseconds():
		fields = append(fields, errs.Field{Path: "announcedAt", Message: "must be within a year of closesAt"})
	}
	return fields
}

// DrawOpener opens draws. It has the secret keys of seeds and statements. A process that accepts
// requests does not have these keys.
type DrawOpener interface {
	// OpenDraw adds the commitment to the seed to the terms of a draw, and checks that the random
	// beacon publishes values. It returns the final terms and the nonce of the seed, both to be
	// stored. It fails with errs.ErrInvalidRequest or errs.ErrBeaconUnavailable.
	OpenDraw(ctx context.Context, terms fairdraw.Commitment) (commitment, nonce string, err error)
}

// commitTerms sets the commitment of a lottery: the terms of its draw, which can never change.
func (s *PromotionService) commitTerms(ctx context.Context, p *promotion.Promotion, beacon *fairdraw.Beacon) (err error) {
	keys := s.opts.Keys()
	public := keys.Public(keys.Current())
	if public == nil {
		return errs.ErrUnavailable.Wrap(errNoKeys)
	}
	p.Commitment, p.SeedNonce, err = s.opts.Opener.OpenDraw(ctx, fairdraw.Commitment{
		Algorithm: fairdraw.AlgorithmDraw, EventID: p.EventID, Winners: int(p.CapacityTotal), CutoffAt: p.LotteryCutoffAt,
		AnnouncedAt: p.AnnouncedAt, ReceiptKey: fairdraw.Hash(public), Beacon: beacon,
	})
	return err
}
