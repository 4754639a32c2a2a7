package dynamo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// Environment variables with which the crashing process finds the tables.
const (
	crashRegion   = "VWR_TEST_CRASH_REGION"
	crashEndpoint = "VWR_TEST_CRASH_ENDPOINT"
	crashPrefix   = "VWR_TEST_CRASH_PREFIX"
)

// The records of so many visitors need two insert calls.
const crashEvent, crashVisitors, crashAtInsert = "crash", 40, 2

func TestMain(m *testing.M) { processtest.Main(m, crashDuringGroup) }

// crashDuringGroup asks for positions concurrently, and kills its own process after the write of
// the counter, while the records are written.
func crashDuringGroup() int {
	cfg := pkgdynamo.Config{Region: os.Getenv(crashRegion), Endpoint: os.Getenv(crashEndpoint), Prefix: os.Getenv(crashPrefix)}
	db, err := pkgdynamo.Open(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	var inserts, answered atomic.Int64
	settled := make(chan struct{})
	s := dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{
		Before: func(in any) error {
			if isInsert(in) && inserts.Add(1) >= crashAtInsert {
				// Wait for the writes in progress: they could take effect after the parent has read.
				<-settled
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		},
		After: func(in, _ any) error {
			if isInsert(in) && answered.Add(1) == crashAtInsert-1 {
				close(settled)
			}
			return nil
		},
	}.Options), cfg, time.Now)
	c, _, err := s.Read(context.Background(), crashEvent)
	if err != nil {
		panic(err)
	}
	var work sync.WaitGroup
	for i := range crashVisitors {
		work.Go(func() {
			_, _ = roomtest.Take(context.Background(), s, c, fmt.Sprint(i), visitorID(i))
		})
	}
	work.Wait()
	return 0 // not killed: the parent's test fails
}

func visitorID(i int) uuid.UUID { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)) }

// find reads a visitor's record. It tries again if a read times out on a busy machine.
func find(t *testing.T, s *dynamo.Store, visitor int) (r room.Record, found bool) {
	t.Helper()
	testkit.UntilNoError(t, func() (err error) {
		r, found, err = s.FindRecord(t.Context(), room.Counters{EventID: crashEvent}, visitorID(visitor))
		return err
	}, "the record of visitor %d", visitor)
	return r, found
}

// A replica is killed between the write of the counter and those of the records. This leaves only
// gaps: stored records keep their positions, and other visitors get later, new ones.
func TestKilledReplicaLeavesGaps(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	s := dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{}.Options), cfg, time.Now)
	c := roomtest.StartRound(t, s, crashEvent, room.DefaultSettings())

	out, err := processtest.Run(t, map[string]string{crashRegion: cfg.Region, crashEndpoint: cfg.Endpoint, crashPrefix: cfg.Prefix})
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, out)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), out)

	before := roomtest.Read(t, s, crashEvent).Issued
	stored := make(map[int]room.Record)
	for i := range crashVisitors {
		if r, found := find(t, s, i); found {
			stored[i] = r
		}
	}
	require.Less(t, len(stored), crashVisitors, "the replica died too late to prove anything")
	require.Greater(t, before, int64(len(stored)), "the replica died too late to prove anything")
	seen := make(map[int64]bool)
	for i := range crashVisitors {
		r, err := roomtest.Take(t.Context(), s, c, fmt.Sprint(i), visitorID(i))
		require.NoError(t, err)
		if old, ok := stored[i]; ok {
			require.Equal(t, old, r, "visitor %d", i)
		} else {
			require.Greater(t, r.Position, before, "visitor %d", i)
		}
		require.False(t, seen[r.Position], "position %d twice", r.Position)
		seen[r.Position] = true
	}
}
