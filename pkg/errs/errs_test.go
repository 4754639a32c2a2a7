package errs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"urr.guru/pkg/errs"
)

func TestCopiesKeepTheSentinelUntouched(t *testing.T) {
	t.Parallel()
	cause := errors.New("row gone")
	e := errs.ErrSeatTaken.With("seatIds", "A-1-1").With("n", "1").Wrap(cause).WithRetry(time.Second).
		WithFields(errs.Field{Path: "seatIds[0]", Message: "is taken"})

	require.ErrorIs(t, e, errs.ErrSeatTaken)
	require.ErrorIs(t, e, cause)
	require.NotErrorIs(t, e, errs.ErrSoldOut)
	require.Equal(t, map[string]string{"seatIds": "A-1-1", "n": "1"}, e.Metadata)
	require.Empty(t, errs.ErrSeatTaken.Metadata)
	require.Empty(t, errs.ErrSeatTaken.Fields)
	require.Zero(t, errs.ErrSeatTaken.RetryAfter)
	require.NoError(t, errs.ErrSeatTaken.Unwrap())
	require.Contains(t, e.Error(), "row gone")
}

func TestWrapKeepsEarlierCauses(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	e := errs.ErrInternal.Wrap(first).Wrap(second)
	require.ErrorIs(t, e, first)
	require.ErrorIs(t, e, second)
	require.Same(t, errs.ErrInternal, errs.ErrInternal.Wrap(nil))
}

func TestFrom(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		reason string
	}{
		"our own":           {errs.ErrSoldOut, "SOLD_OUT"},
		"wrapped":           {fmt.Errorf("hold: %w", errs.ErrSoldOut), "SOLD_OUT"},
		"deadline":          {fmt.Errorf("query: %w", context.DeadlineExceeded), "DEADLINE_EXCEEDED"},
		"canceled":          {context.Canceled, "CANCELED"},
		"foreign status":    {status.Error(codes.Unavailable, "connection refused"), "UNAVAILABLE"},
		"wrapped status":    {fmt.Errorf("ticket: %w", status.Error(codes.NotFound, "no")), "NOT_FOUND"},
		"anything else":     {errors.New("disk on fire"), "INTERNAL"},
		"unknown grpc code": {status.Error(codes.DataLoss, "x"), "INTERNAL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := errs.From(tc.err)
			require.Equal(t, tc.reason, e.Reason)
			require.ErrorIs(t, e, tc.err, "the log must see where it came from")
		})
	}
	require.Nil(t, errs.From(nil))
}

func TestStatusRoundTrip(t *testing.T) {
	t.Parallel()
	for _, e := range errs.Catalogue() {
		t.Run(e.Reason, func(t *testing.T) {
			t.Parallel()
			sent := e.With("seatIds", "A-1-1,A-1-2").WithRetry(1500 * time.Millisecond).
				WithFields(errs.Field{Path: "a[0].b", Message: "is odd"}).Wrap(errors.New("secret detail"))
			st := errs.ToStatus(sent)
			require.NotContains(t, st.Error(), "secret detail")

			got := errs.FromStatus(st)
			require.ErrorIs(t, got, e)
			require.Equal(t, sent.Kind, got.Kind)
			require.Equal(t, sent.Message, got.Message)
			require.Equal(t, sent.Metadata, got.Metadata)
			require.Equal(t, sent.Fields, got.Fields)
			require.Equal(t, sent.RetryAfter, got.RetryAfter)

			again := errs.FromStatus(errs.ToStatus(fmt.Errorf("through another service: %w", got)))
			require.ErrorIs(t, again, e)
			require.Equal(t, sent.Metadata, again.Metadata)
		})
	}
	require.NoError(t, errs.ToStatus(nil))
	require.Nil(t, errs.FromStatus(nil))
}

func TestStatusSurvivesMetadataThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	st := status.Convert(errs.ToStatus(errs.ErrSoldOut.With("k", "\xff")))
	require.Equal(t, codes.FailedPrecondition, st.Code())
	require.Equal(t, errs.ErrSoldOut.Message, st.Message())
}

func TestForeignDomainIsNotOurReason(t *testing.T) {
	t.Parallel()
	st := status.New(codes.PermissionDenied, "iam says no")
	require.Equal(t, "FORBIDDEN", errs.FromStatus(st.Err()).Reason)
	require.Equal(t, errs.ErrForbidden.Message, errs.FromStatus(st.Err()).Message, "another program's text is not for the public")
}

func TestProblemRoundTrip(t *testing.T) {
	t.Parallel()
	for _, e := range errs.Catalogue() {
		sent := e.With("k", "v").WithRetry(20*time.Millisecond).
			WithFields(errs.Field{Path: "a", Message: "m"}, errs.Field{Path: "b", Message: "n"})
		got := errs.FromProblem(errs.ToProblem(fmt.Errorf("item: %w", sent)))
		require.Equal(t, sent.Kind, got.Kind)
		require.Equal(t, sent.Reason, got.Reason)
		require.Equal(t, sent.Message, got.Message)
		require.Equal(t, sent.Metadata, got.Metadata)
		require.Equal(t, sent.Fields, got.Fields)
		require.Equal(t, sent.RetryAfter, got.RetryAfter)
	}
	require.Nil(t, errs.ToProblem(nil))
	require.Nil(t, errs.FromProblem(nil))
	require.Nil(t, errs.FromProblem(errs.ToProblem(errs.ErrSoldOut)).Metadata)
}

// Text wrapped around a status is for the log, not for clients.
func TestWrappedStatusKeepsItsSentence(t *testing.T) {
	t.Parallel()
	e := errs.From(fmt.Errorf("list events: %w", errs.ToStatus(errs.ErrSoldOut)))
	require.Equal(t, errs.ErrSoldOut.Message, e.Message)
	require.ErrorIs(t, e, errs.ErrSoldOut)
	require.ErrorContains(t, e.Cause(), "list events")
}

func TestEveryKindHasASentence(t *testing.T) {
	t.Parallel()
	for _, e := range errs.Catalogue() {
		require.NotEmpty(t, e.Kind.Sentence(), e.Kind)
	}
	require.Equal(t, errs.ErrConflict.Message, errs.Conflict.Sentence())
	require.Equal(t, errs.ErrInternal.Message, errs.Kind("unheard of").Sentence())
}
