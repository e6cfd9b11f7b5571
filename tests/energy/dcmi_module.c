/* DCMI for OpenIPMI's ipmi_sim, which has none: answers Get Power Reading (group extension DCh, command 02h),
 * so that the harness is tested against the bytes that a BMC sends. Loaded by `loadlib "dcmi.so" "FILE"` of
 * lan.conf; FILE holds the watts of the moment, as plain digits, and is read for each request. A FILE that says
 * "off" makes the reading inactive, as on machines whose power management is switched off. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <OpenIPMI/ipmi_err.h>
#include <OpenIPMI/ipmi_msgbits.h>
#include <OpenIPMI/mcserv.h>
#include <OpenIPMI/serv.h>

enum {
    DCMI_GROUP_EXTENSION = 0xdc,
    DCMI_GET_POWER_READING_CMD = 0x02,
    MODE_SYSTEM_POWER = 0x01,
    STATE_ACTIVE = 1 << 6,
    RESPONSE_BYTES = 19,
};

static char source[4096];
static struct {
    uint32_t count, least, most;
    uint64_t sum;
} seen;

static unsigned read_watts(int *is_active)
{
    char text[32] = "";
    unsigned watts = 0;
    FILE *file = fopen(source, "r");

    if (file) {
	if (!fgets(text, sizeof(text), file))
	    text[0] = 0;
	fclose(file);
    }
    *is_active = sscanf(text, "%u", &watts) == 1;
    return watts;
}

static void put(unsigned char *to, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
	to[i] = value >> (8 * i); /* least significant first */
}

static void get_power_reading(msg_t *msg, unsigned char *rdata, unsigned int *rdata_len)
{
    int is_active = 0;
    unsigned watts = read_watts(&is_active);

    if (msg->len < 4 || msg->data[1] != MODE_SYSTEM_POWER) {
	rdata[0] = IPMI_INVALID_DATA_FIELD_CC;
	*rdata_len = 1;
	return;
    }
    if (seen.count == 0 || watts < seen.least)
	seen.least = watts;
    if (watts > seen.most)
	seen.most = watts;
    seen.count++;
    seen.sum += watts;
    rdata[0] = 0;
    rdata[1] = DCMI_GROUP_EXTENSION;
    put(rdata + 2, watts, 2);
    put(rdata + 4, seen.least, 2);
    put(rdata + 6, seen.most, 2);
    put(rdata + 8, (uint32_t)(seen.sum / seen.count), 2);
    put(rdata + 10, (uint32_t)time(NULL), 4);
    put(rdata + 14, 1000, 4); /* ms that the average covers */
    rdata[18] = is_active ? STATE_ACTIVE : 0;
    *rdata_len = RESPONSE_BYTES;
}

static void handle_dcmi(lmc_data_t *mc, msg_t *msg, unsigned char *rdata, unsigned int *rdata_len, void *cb_data)
{
    (void)mc;
    (void)cb_data;
    if (msg->cmd == DCMI_GET_POWER_READING_CMD) {
	get_power_reading(msg, rdata, rdata_len);
	return;
    }
    rdata[0] = IPMI_INVALID_CMD_CC;
    *rdata_len = 1;
}

int ipmi_sim_module_print_version(sys_data_t *sys, const char *options);
int ipmi_sim_module_init(sys_data_t *sys, const char *options);

int ipmi_sim_module_print_version(sys_data_t *sys, const char *options)
{
    (void)sys;
    (void)options;
    printf("DCMI power reading, for tests\n");
    return 0;
}

int ipmi_sim_module_init(sys_data_t *sys, const char *options)
{
    (void)sys;
    if (!options || strlen(options) >= sizeof(source))
	return -1;
    strcpy(source, options);
    ipmi_emu_register_group_extension_handler(DCMI_GROUP_EXTENSION, handle_dcmi, NULL);
    return 0;
}
