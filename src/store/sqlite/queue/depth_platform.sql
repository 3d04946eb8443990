SELECT queued, active FROM queue_platform WHERE singleton = 1
